"""Training state: what is saved, restored and proved."""
