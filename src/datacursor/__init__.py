"""datacursor."""
