"""Plain data that crosses a boundary: clients, the server and the engine share these models."""
