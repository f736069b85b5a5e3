"""What ships with the program is found and fits together."""

import pytest

from engine import words
from engine.assets import AssetMissing, asset, demo


def test_the_demos_answer_stands_in_its_document() -> None:
    question = demo()
    document = asset(question.document).read_text(encoding="utf-8")
    assert question.answer in document
    assert question.prompt.startswith(document[:100])
    assert question.prompt.endswith(question.question)


def test_the_measuring_text_is_there() -> None:
    assert len(asset("measure_text.md").read_text(encoding="utf-8").split()) > 1000


def test_a_missing_asset_is_one_clear_sentence() -> None:
    with pytest.raises(AssetMissing) as caught:
        asset("nothing.txt")
    assert "nothing.txt" in words.sentence(caught.value)
