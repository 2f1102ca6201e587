"""The operations written as code: the trace, its vector form, the fixed kernels, the cache of compiled
code.
"""
