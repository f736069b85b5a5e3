"""What this machine is, what the library can do here, and whether all is well."""
