"""Chats on disk: SQLite, one owner thread, no Qt. Nothing a person wrote is ever lost by it."""
