"""Chat: from a conversation to the model's prompt, and from its tokens to text events."""
