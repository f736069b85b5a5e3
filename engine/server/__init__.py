"""The HTTP process: speaks to clients, supervises the worker, and never loads the library."""
