"""The page about models: find them on the hub, keep them in the library, follow the downloads."""
