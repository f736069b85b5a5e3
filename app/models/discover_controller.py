"""Discover's logic: asks the hub for words or a repo, recommends, and queues downloads."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, Signal

from app.engine_client.client import Connection
from app.engine_client.failures import sentence
from app.i18n import numbers, tr
from app.models.discover_view import DiscoverView
from app.models.listing_view import LIVE, Listing
from app.models.row import Row
from app.models.words import best_name, best_words, breakable, fit_label, fit_sentence, repo_facts
from app.shell.announce import announce
from app.shell.context import Context
from engine.api.failure import Failure
from engine.api.models import (
    JobList,
    Recommendation,
    Recommended,
    RepoSummary,
    SearchAnswer,
    TokenAnswer,
)


class DiscoverController(QObject):
    """`downloads_asked` when somebody wants to see the queue."""

    downloads_asked = Signal()

    def __init__(self, context: Context, view: DiscoverView) -> None:
        super().__init__(view)
        self._context = context
        self._models = context.models
        self._view = view
        self._asked = 0  # answers to earlier searches come too late
        self._query = ""
        self._best: Recommendation | None = None
        self._best_row: Row | None = None
        self._best_asked = False
        self._listings: list[Listing] = []
        view.search_asked.connect(self.search)
        view.trouble.retried.connect(self._again)
        view.trouble.settings_asked.connect(lambda: context.show_page("settings"))
        view.token.kept.connect(self._keep_token)
        view.trouble.token.kept.connect(self._keep_token)
        self._models.jobs_changed.connect(self._on_jobs)

    def refresh(self) -> None:
        """Called each time it comes forward."""
        connected = self._context.engine.connection is Connection.CONNECTED
        self._view.search.setEnabled(connected)
        if connected and not self._best_asked:
            self._recommend()

    def search(self, query: str) -> None:
        """By words; a repo's name or address shows that repo. Nothing: what fits this machine."""
        self._asked += 1
        self._query = query
        self._listings.clear()
        self._view.clear()
        self._view.best.setVisible(not query and self._best is not None)
        self._view.hint.setVisible(not query)
        self._view.say(tr("models.searching") if query else "")
        if query:
            asked = self._asked
            self._models.search(
                query,
                lambda answer: self._on_found(asked, answer),
                lambda problem: self._on_problem(asked, problem),
            )

    def _again(self) -> None:
        if self._query:
            self.search(self._query)
        else:
            self._view.clear()
            self._view.hint.show()
            self._recommend()

    # What fits best

    def _recommend(self) -> None:
        self._best_asked = True
        self._view.say(tr("models.recommending"))
        asked = self._asked
        self._models.recommended(
            lambda answer: self._on_recommended(asked, answer),
            lambda problem: self._on_problem(asked, problem),
        )

    def _on_recommended(self, asked: int, answer: Recommended) -> None:
        best = self._best = answer.best
        if best is not None:
            made = Row(best_name(best), best_words(best))
            made.show_size(best.bytes)
            fit = best.variant.fit
            made.show_label(fit_label(fit), fit_sentence(fit) if fit else "")
            made.acted.connect(self._take_best)
            self._best_row = made
            self._view.show_best(made)
            self._view.best.setVisible(not self._query)
            self._on_jobs()
        if asked == self._asked:
            self._view.say("" if best is not None else tr("models.nothing_fits"))

    def _take_best(self) -> None:
        best = self._best
        if best is not None and self._is_live(best.pull):
            self.downloads_asked.emit()
        elif best is not None:
            self._pull(best.pull, best.prefiller is not None)

    # What was found

    def _on_found(self, asked: int, answer: SearchAnswer) -> None:
        if asked != self._asked:
            return
        view = self._view
        if answer.listing is not None:
            view.say("")
            shown = self._made(Listing(answer.listing, framed=True))
            view.show_listing(breakable(answer.listing.repo), shown)
            announce(view, answer.listing.repo)
            return
        view.repos.fill([partial(self._repo_row, repo) for repo in answer.repos])
        view.say("" if answer.repos else tr("models.nothing_found", query=answer.query))
        announce(view, tr("search.many", count=len(answer.repos)))

    def _repo_row(self, repo: RepoSummary) -> Row:
        made = Row(repo.repo, repo_facts(repo), opens=True)
        made.toggled.connect(partial(self._open_repo, made, repo.repo))
        return made

    def _open_repo(self, shown: Row, repo: str, is_open: bool) -> None:
        """Asks for what the repo holds when it is opened for the first time."""
        if not is_open or shown.details.count():
            return
        asked = self._asked
        waiting = shown.add_words(tr("models.looking"))

        def found(answer: SearchAnswer) -> None:
            if asked == self._asked and answer.listing is not None:
                waiting.hide()
                shown.details.addWidget(self._made(Listing(answer.listing, framed=False)))

        def failed(problem: Failure) -> None:
            if asked == self._asked:
                waiting.setText(sentence(problem))

        self._models.search(repo, found, failed)

    def _made(self, listing: Listing) -> Listing:
        listing.pull_asked.connect(self._pull)
        listing.downloads_asked.connect(self.downloads_asked)
        listing.show_jobs(self._models.jobs)
        self._listings.append(listing)
        return listing

    def _on_problem(self, asked: int, problem: Failure) -> None:
        if asked != self._asked:
            return
        self._view.say("")
        self._view.trouble.say(problem)
        self._best_asked = self._best is not None

    # Into the queue

    def _pull(self, wanted: str, prefiller: bool) -> None:
        self._models.pull(wanted, self._on_queued, self._on_refused, prefiller=prefiller)

    def _on_queued(self, queued: JobList) -> None:
        size = sum(job.progress.total for job in queued.jobs)
        words = tr("models.queued_download", name=queued.jobs[0].title, size=numbers.size(size))
        self._context.notify(words, tr("models.show_download"), self.downloads_asked.emit)

    def _on_refused(self, problem: Failure) -> None:
        self._view.trouble.say(problem)
        self._context.notify(sentence(problem))

    def _on_jobs(self) -> None:
        for listing in self._listings:
            listing.show_jobs(self._models.jobs)
        best, shown = self._best, self._best_row
        if best is None or shown is None:
            return
        if self._is_live(best.pull):
            shown.show_button(tr("models.show_download"))
        elif best.variant.installed or self._is_done(best.pull):
            shown.show_button("")
            shown.show_facts(tr("models.best_installed"))
        else:
            shown.show_button(tr("models.download"), "primary")

    def _is_live(self, title: str) -> bool:
        return any(job.title == title and job.state in LIVE for job in self._models.jobs)

    def _is_done(self, title: str) -> bool:
        return any(job.title == title and job.state == "done" for job in self._models.jobs)

    # The token

    def _keep_token(self, token: str) -> None:
        self._models.keep_token(token, self._on_kept, self._on_refused)

    def _on_kept(self, _: TokenAnswer) -> None:
        self._view.token.hide()
        self._context.notify(tr("models.token_kept"))
        if not self._view.trouble.isHidden():
            self._again()
