"""`datacursor verify-restart`: kill a training program, resume it, and compare what it did.

log         a trace, read back
launch      starts the program, waits until it ends or is killed
compare     two traces: the first difference under a claim
verdict     what was found, and in which words it is said
harness     the runs in order
damage      the faults that the self-test plants
selftest    plants them, and requires that each is caught and named
picture     per update what was compared, as PNG or in a page of HTML

docs/verify.md describes the command.
"""
