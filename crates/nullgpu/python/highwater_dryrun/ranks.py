def imagine(n): pass
