"""Sentences for the chat's errors and warnings."""

from __future__ import annotations

SENTENCES: dict[str, str] = {
    "chat.context_overflow": (
        "This conversation does not fit: it needs {needed} tokens ({prompt} to read and "
        "{reserved} for the answer) and the context holds {available}. Shorten it, start a new "
        "chat, or load the model with a larger context."
    ),
    "chat.empty": "There is nothing to answer: the conversation has no messages. Write one.",
    "chat.no_tool_form": (
        "A call of a tool was required, and this model's template shows no known form of one. Let "
        "the model decide (tool_choice auto), or choose another model."
    ),
    "chat.no_tools": (
        "This model's chat template knows no tools, so it would never hear of those that were "
        "given. Leave them out, or use a model that can call tools."
    ),
    "chat.nothing_to_continue": (
        "There is no answer to go on with: the last message must be the assistant's, and the "
        "model's template must show it unchanged. Ask for a new answer instead."
    ),
    "grammar.bad_schema": (
        "The JSON schema cannot be followed: {problem}. Simplify it, or leave response_format out."
    ),
    "grammar.dead_end": (
        "The grammar allows nothing that this model can write here, so the answer ended. Simplify "
        "the grammar or the schema."
    ),
    "grammar.invalid": (
        "The grammar is not one that the library can read ({why}). Correct it and ask again."
    ),
    "template.failed": (
        "The model's chat template failed ({reason}), so this message cannot be sent to the "
        "model. Start a new chat, or use another file of this model."
    ),
    "template.fallback": (
        "The model's own chat template cannot be used ({reason}), so a built-in one (ChatML) "
        "takes its place. Answers may be worse than usual; another file of this model may help."
    ),
    "template.over_limit": (
        "The model's chat template was stopped because it took too much {what} (the limit is "
        "{limit}). Do not trust this file; use another one of this model."
    ),
    "template.refused": (
        'The model\'s chat template does not accept this conversation ("{reason}"). Edit the '
        "conversation, or start a new chat."
    ),
}
