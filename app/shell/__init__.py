"""The window around the pages: navigation, messages to the user, work in the background."""
