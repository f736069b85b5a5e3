"""The chat: sidebar, transcript and composer; views lay out, controllers decide."""
