"""Message text to segments that a view can show one by one; no Qt, so that any thread may do it."""
