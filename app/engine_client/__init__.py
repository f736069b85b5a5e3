"""The engine as the window sees it: a process that is started and watched, and its API."""
