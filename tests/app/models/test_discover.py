"""Discover: what fits this machine, search, a repo's models with their fit, into the queue."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from app import sample_models
from app.main import Application
from app.models.listing_view import Listing
from app.models.models_view import ModelsView
from app.models.row import Row
from engine.api.failure import Failure
from engine.api.models import Recommended, SearchAnswer
from tests.app.models.conftest import ROUTE, posted, words
from tests.support.fake_engine import FakeEngine


def search(page: ModelsView, text: str) -> None:
    page.discover.query.setText(text)
    page.discover.search.click()


def listing_of(page: ModelsView, qtbot: QtBot) -> Listing:
    """The sample repo, opened by its name."""
    search(page, sample_models.REPO)
    qtbot.waitUntil(lambda: page.discover.findChild(Listing) is not None, timeout=10_000)
    found = page.discover.findChild(Listing)
    assert isinstance(found, Listing)
    qtbot.waitUntil(lambda: found.isVisible() and all_made(found))
    return found


def all_made(listing: Listing) -> bool:
    return not any(card.is_filling for card in listing.cards.values())


def row_of(rows: list[Row], name: str) -> Row:
    return next(one for one in rows if one.title == name)


def test_one_model_is_recommended_with_its_size_and_the_reasons(page: ModelsView) -> None:
    (best,) = page.discover.best.rows
    assert best.title == "Qwen3.8-27B IQ2_XXS + prefiller"
    assert best.amount.text() == "22.6 GB" and best.badge.text() == "fits on the GPU"
    assert "It writes about 31 tok/s." in best.facts.text()
    assert "MMLU-Pro 70.5 → 77.93" in best.facts.text()


def test_the_recommended_pair_is_queued_with_one_button(
    page: ModelsView, fake: FakeEngine, said: list[str], qtbot: QtBot
) -> None:
    (best,) = page.discover.best.rows
    best.button.click()
    qtbot.waitUntil(lambda: bool(said))
    assert posted(fake, "pull") == [{"model": f"{sample_models.REPO}:IQ2_XXS", "prefiller": True}]
    assert said == ["unsloth/Qwen3.8-27B-GGUF:IQ2_XXS is in the queue: 8.9 GB."]
    fake.publish_jobs(*sample_models.jobs())
    qtbot.waitUntil(lambda: best.button.text() == "Show")
    best.button.click()
    assert page.tab == "downloads" and len(posted(fake, "pull")) == 1


def test_words_find_repos_and_opening_one_shows_its_models(page: ModelsView, qtbot: QtBot) -> None:
    search(page, "qwen")
    qtbot.waitUntil(lambda: len(page.discover.repos.rows) == 3)
    assert page.discover.best.isHidden(), "what was searched for comes first"
    first, second, _ = page.discover.repos.rows
    assert first.facts.text() == "1,204,311 downloads · updated 2026-11-02 · apache-2.0"
    assert "conditions to accept" in second.facts.text()
    first.open_button.click()
    qtbot.waitUntil(lambda: first.findChild(Listing) is not None)
    listing = first.findChild(Listing)
    assert isinstance(listing, Listing)
    qtbot.waitUntil(lambda: "needs 29.2 GB more" in words(first))
    assert "fits on the GPU" in words(first)
    first.open_button.click()
    assert not first.is_open


def test_a_repos_models_stand_by_kind_with_quantisation_size_and_fit(
    page: ModelsView, qtbot: QtBot
) -> None:
    listing = listing_of(page, qtbot)
    assert list(listing.cards) == ["decoder", "projector"]
    decoders = listing.cards["decoder"].rows
    facts = {one.title: (one.amount.text(), one.badge.text()) for one in decoders}
    assert facts["IQ1_S"] == ("7.2 GB", "fits on the GPU")
    assert facts["Q8_0"] == ("29.1 GB", "partly on the GPU")
    assert facts["BF16"] == ("54.7 GB", "needs 29.2 GB more")
    assert row_of(decoders, "Q4_K_M").button.property("kind") == "primary"
    assert not row_of(decoders, "BF16").button.isVisible(), "parts are missing on the hub"
    assert not row_of(decoders, "IQ2_XXS").button.isVisible(), "it is in the library"
    assert "52 of 64 blocks" in row_of(decoders, "Q8_0").badge.toolTip()
    assert "../../autostart.gguf" in words(listing)


def test_a_decoder_and_its_prefiller_come_as_a_pair(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    decoders = listing_of(page, qtbot).cards["decoder"].rows
    pair = row_of(decoders, "IQ1_S with its prefiller")
    assert pair.amount.text() == "20.9 GB" and pair.button.text() == "Download both"
    pair.button.click()
    qtbot.waitUntil(lambda: len(posted(fake, "pull")) == 1)
    row_of(decoders, "IQ2_XXS with its prefiller").button.click()
    qtbot.waitUntil(lambda: len(posted(fake, "pull")) == 2)
    row_of(decoders, "Q8_0").button.click()
    qtbot.waitUntil(lambda: len(posted(fake, "pull")) == 3)
    assert posted(fake, "pull") == [
        {"model": f"{sample_models.REPO}:IQ1_S", "prefiller": True},
        {"model": f"{sample_models.PREFILLERS}:IQ2_XXS", "prefiller": False},
        {"model": f"{sample_models.REPO}:Q8_0", "prefiller": False},
    ]


def test_a_model_that_changed_on_the_hub_can_be_fetched_anew(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    answer = sample_models.listing()
    assert answer.listing is not None
    variants = tuple(
        one.model_copy(update={"outdated": one.installed}) for one in answer.listing.variants
    )
    changed = answer.listing.model_copy(update={"variants": variants})
    fake.answers[f"POST {ROUTE}/search"] = SearchAnswer(query="x", listing=changed).model_dump(
        mode="json"
    )
    row = row_of(listing_of(page, qtbot).cards["decoder"].rows, "IQ2_XXS")
    assert "changed on the hub since" in row.facts.text()
    assert row.button.text() == "Get the new one"
    row.button.click()
    wanted = [{"model": f"{sample_models.REPO}:IQ2_XXS", "prefiller": False}]
    qtbot.waitUntil(lambda: posted(fake, "pull") == wanted)


def test_two_models_of_one_quantisation_are_asked_for_by_their_files(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    answer = sample_models.listing()
    assert answer.listing is not None
    first = answer.listing.variants[0]
    twin = first.model_copy(update={"name": "other/Qwen3.8-27B-IQ1_S"})
    changed = answer.listing.model_copy(update={"variants": (first, twin), "prefillers": {}})
    answer = SearchAnswer(query="x", listing=changed)
    fake.answers[f"POST {ROUTE}/search"] = answer.model_dump(mode="json")
    rows = listing_of(page, qtbot).cards["decoder"].rows
    rows[0].button.click()
    qtbot.waitUntil(lambda: bool(posted(fake, "pull")))
    wanted = f"{sample_models.REPO}/blob/main/Qwen3.8-27B-IQ1_S.gguf"
    assert posted(fake, "pull")[0]["model"] == wanted


def test_without_a_network_it_says_so_and_tries_again(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers[f"GET {ROUTE}/recommended"] = sample_models.OFFLINE
    ready_app.window.show_page("models")
    view = ready_app.window.findChild(ModelsView)
    assert isinstance(view, ModelsView)
    trouble = view.discover.trouble
    qtbot.waitUntil(trouble.isVisible)
    assert "cannot be reached" in words(trouble) and not trouble.token.isVisible()
    fake.answers[f"GET {ROUTE}/recommended"] = sample_models.recommended().model_dump(mode="json")
    trouble.retry.click()
    qtbot.waitUntil(lambda: bool(view.discover.best.rows))
    assert not trouble.isVisible()


def test_offline_mode_leads_to_the_settings(
    page: ModelsView, ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    offline = Failure(
        code="hub.offline", sentence="Offline mode is on.", data={"cause": "a setting"}
    )
    fake.answers[f"POST {ROUTE}/search"] = offline
    search(page, "qwen")
    trouble = page.discover.trouble
    qtbot.waitUntil(trouble.isVisible)
    assert "Offline mode is on" in words(trouble)
    fake.answers["GET /twofold/settings"] = {"settings": []}
    trouble.settings.click()
    assert ready_app.window.page == "settings"


def test_a_gated_repo_is_explained_and_takes_a_token(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot, said: list[str]
) -> None:
    fake.answers[f"POST {ROUTE}/search"] = Failure(code="hub.gated", sentence="It has conditions.")
    fake.answers[f"PUT {ROUTE}/token"] = {"source": "keyring"}
    search(page, "someone/gated")
    token = page.discover.trouble.token
    qtbot.waitUntil(token.isVisible)
    token.field.setText("hf_something_secret")
    token.keep.click()
    qtbot.waitUntil(lambda: bool(said))
    assert posted(fake, "token") == [{"token": "hf_something_secret"}]
    assert token.field.text() == "", "it is never shown again"
    qtbot.waitUntil(lambda: len(posted(fake, "search")) == 2)


def test_nothing_found_and_nothing_that_fits_are_said_plainly(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers[f"POST {ROUTE}/search"] = SearchAnswer(query="zzz").model_dump(mode="json")
    search(page, "zzz")
    qtbot.waitUntil(lambda: "Nothing was found for “zzz”" in page.discover.status.text())
    search(page, "")
    assert page.discover.best.isVisible() and not page.discover.status.isVisible()


def test_a_machine_that_nothing_fits_is_told_what_it_can_do(
    ready_app: Application, fake: FakeEngine, qtbot: QtBot
) -> None:
    fake.answers[f"GET {ROUTE}/recommended"] = Recommended(best=None).model_dump(mode="json")
    ready_app.window.show_page("models")
    view = ready_app.window.findChild(ModelsView)
    assert isinstance(view, ModelsView)
    qtbot.waitUntil(lambda: "try the demo model" in view.discover.status.text())


def test_an_answer_to_an_earlier_search_does_not_replace_a_later_ones(
    page: ModelsView, fake: FakeEngine, qtbot: QtBot
) -> None:
    search(page, "qwen")
    search(page, sample_models.REPO)
    qtbot.waitUntil(lambda: page.discover.findChild(Listing) is not None)
    qtbot.wait(100)
    assert not page.discover.repos.rows
    assert len(posted(fake, "search")) == 2


@pytest.mark.parametrize("query", ["qwen", sample_models.REPO])
def test_enter_searches(page: ModelsView, fake: FakeEngine, qtbot: QtBot, query: str) -> None:
    page.discover.query.setFocus()
    qtbot.keyClicks(page.discover.query, query)
    page.discover.query.returnPressed.emit()
    qtbot.waitUntil(lambda: posted(fake, "search") == [{"query": query}])
    qtbot.waitUntil(lambda: not page.discover.status.isVisible())
