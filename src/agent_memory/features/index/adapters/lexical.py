"""The lexical index on tantivy.

`kernel.text.analysis` splits texts into terms; tantivy only splits those at blanks. The outbox
cursor is a document of its own in the same commit, so that index and cursor agree after any crash.

This module works around these traps of tantivy:

- a failed commit must not be tried again: the next one would succeed without the batch;
- threads must not share a writer;
- a document of a wrong type fails only later;
- damage is not noticed on opening;
- a panic is not an Exception;
- removed documents stay in the files until a merge, which cannot be requested: to erase them, the
  index is filled afresh in a folder beside this one, which then takes its place.

On a team server each caller sees other documents, so what tantivy counts in all of them is not
used: terms are counted among the documents that the caller sees, and the field `impact` takes the
place of BM25.
"""

import hashlib
import json
import struct
import sys
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import structlog
import tantivy
from tantivy import Occur, Query

from agent_memory.features.index.adapters.analysis_worker import AnalysisWorker
from agent_memory.features.index.model import documents, impacts
from agent_memory.features.index.model.documents import SEVERAL, Document, DocumentKind, Owner
from agent_memory.features.index.model.queries import (
    IndexHit,
    SearchScope,
    TermStatistics,
    domain_names,
)
from agent_memory.kernel.access import Principal
from agent_memory.kernel.errors import IndexFailed
from agent_memory.kernel.ids import MAX_MILLIS, USER, Millis
from agent_memory.kernel.status import IndexStats
from agent_memory.kernel.text import analysis
from agent_memory.platform.files import measure_size
from agent_memory.platform.removing import remove_tree

log = structlog.get_logger()

# Part of the stored schema: with another name the index and the term vectors are rebuilt.
_ANALYZER = "terms-2"
_TEXT = "text"
_ABOUT = "about"  # tool, file, project and date
_SPEAKER = "speaker"
_IMPACT = "impact"  # on a team server
_WEIGHTS = {_TEXT: 1.0, _ABOUT: 0.3}
_RAW = ("kind", "project", "session", "agent", "role", "namespace", "domain", "spec", "status")
_BOOKKEEPING = "cursor"  # the kind of the document that stores the cursor
_HEAP_BYTES = 16_000_000
_LONGEST_TERM = 1_000  # characters of an exact term; a longer one is replaced by its hash
_NO_SCORE = 0.0
_MOST_EQUALS = 1_000  # hits of equal score that are read to order them
_GROWTH = 4  # times as many hits are read next if the last of them are equal

T = TypeVar("T")


class TantivyIndex:
    """A LexicalIndex in a folder."""

    def __init__(
        self,
        path: Path,
        *,
        read_only: bool = False,
        for_team: bool = False,
        analysis: AnalysisWorker | None = None,
    ) -> None:
        """Open the index. One `for_team` has another schema: it is filled again after a switch."""
        self._path = path
        self._for_team = for_team
        self._analysis = analysis or AnalysisWorker()
        self._writing = threading.RLock()
        self._writer: Any = None
        self._damaged = False
        self._cursor: int | None = None  # of the last commit
        self._generation = 0
        self._fresh: TantivyIndex | None = None  # is being filled to replace this one
        if read_only:
            self._index = self._guard(self._read)
            return
        for left in (self._beside("fresh"), self._beside("old")):
            remove_tree(left, ignore_errors=True)
        self._index = self._open_index()

    def cursor(self) -> int | None:
        """Return the cursor, or None if the index is new or damaged and must be filled."""
        if self._damaged:
            return None
        try:
            known = self._cursor
            return self._guard(self._read_cursor) if known is None else known
        except IndexFailed as exc:
            log.warning("lexical.unreadable", error=str(exc))
            self._damaged = True
            return None

    def replace(
        self, owned: Mapping[Owner, Sequence[Document]], /, *, cursor: int | None = None
    ) -> None:
        with self._writing:
            if self._fresh is not None and cursor is None:
                self._fresh.replace(owned)
                return
            self._abandon_fresh()  # a filling has no cursor before its end: it was abandoned
            held = [document for documents in owned.values() for document in documents]
            analyzed = self._analysis.run(_analyze_for_team if self._for_team else _analyze, held)
            self._commit(lambda writer: self._write(writer, owned, analyzed, cursor))

    def find(self, terms: Sequence[str], scope: SearchScope, /, *, limit: int) -> list[IndexHit]:
        if not terms or limit < 1:
            return []
        searcher = self._guard(self._index.searcher)
        caller = scope.caller if self._for_team else None
        if caller is not None:
            matching = self._guard(lambda: self._weigh_visible(searcher, terms, caller))
            most_equals = sys.maxsize  # which of them are read must not depend on other documents
        else:
            matching = [
                self._boost_term(field, term, weight)
                for term in dict.fromkeys(terms)
                for field, weight in _WEIGHTS.items()
            ]
            most_equals = _MOST_EQUALS
        should = Query.boolean_query([(Occur.Should, query) for query in matching])
        query = Query.boolean_query([(Occur.Must, should), *self._filters(scope)])
        return self._read_best(
            searcher,
            limit,
            lambda most: searcher.search(query, most, count=False).hits,
            most_equals=most_equals,
        )

    def find_newest(self, scope: SearchScope, /, *, limit: int) -> tuple[list[IndexHit], int]:
        searcher = self._guard(self._index.searcher)
        query = Query.boolean_query([(Occur.Must, Query.all_query()), *self._filters(scope)])
        count = 0

        def search(most: int) -> list[tuple[float, Any]]:
            nonlocal count
            answer = searcher.search(query, most, count=True, order_by_field="at")
            count = int(answer.count)
            hits: list[tuple[float, Any]] = answer.hits
            return hits

        # Tantivy allocates room for `limit` hits, and aborts if there is not enough memory.
        hits = self._read_best(searcher, max(1, min(limit, searcher.num_docs)), search)
        return [hit._replace(score=_NO_SCORE) for hit in hits[: max(0, limit)]], count

    def _read_best(
        self,
        searcher: Any,
        limit: int,
        search: Callable[[int], list[tuple[float, Any]]],
        *,
        most_equals: int = sys.maxsize,
    ) -> list[IndexHit]:
        """Return the best hits, of equal ones the newest."""
        most = limit + 1
        while True:
            hits = self._guard(partial(search, most))
            # Tantivy returns any of equal hits, depending on its merges: read all, or enough.
            if len(hits) < most or hits[-1][0] < hits[limit - 1][0] or most > most_equals:
                break
            most = min(most * _GROWTH, max(most + 1, searcher.num_docs))
        times = self._guard(
            lambda: searcher.fast_field_values("at", [address for _, address in hits])
        )
        ranked = sorted(
            ((-score, -at, address) for (score, address), at in zip(hits, times, strict=True)),
            key=itemgetter(0, 1),
        )
        # Only the key, which must be loaded, tells these last ones apart.
        end = next(
            (n for n in range(limit, len(ranked)) if ranked[n][:2] != ranked[limit - 1][:2]),
            len(ranked),
        )
        results = [self._load_hit(searcher, address, -score) for score, _, address in ranked[:end]]
        results.sort(key=lambda hit: (-hit.score, -hit.at_ms, hit.key))
        return results[:limit]

    def get_statistics(
        self, terms: Sequence[str], caller: Principal | None = None, /
    ) -> TermStatistics:
        if self._for_team and caller is not None:
            return self._guard(lambda: self._count_visible_terms(terms, caller))
        return self._guard(lambda: self._count_terms(terms))

    def _weigh_visible(self, searcher: Any, terms: Sequence[str], caller: Principal) -> list[Any]:
        """Return the query of each impact, worth as much as the term is rare for this caller."""
        total = self._count_all_visible(searcher, caller)
        weighed: list[tuple[str, str, int]] = []
        for term in dict.fromkeys(terms):
            rarity = impacts.weigh(total, self._count_visible(searcher, _TEXT, term, caller))
            weighed += [
                (_IMPACT, impacts.name_token(term, bit), bit * rarity) for bit in impacts.BITS
            ]
            rarity = impacts.weigh(total, self._count_visible(searcher, _ABOUT, term, caller))
            weighed.append((_ABOUT, term, impacts.ABOUT * rarity))
        return [
            Query.const_score_query(self._match(field, token), float(weight))
            for field, token, weight in weighed
        ]

    def _count_all_visible(self, searcher: Any, caller: Principal) -> int:
        occur, visible = self._restrict(caller)
        count = _count(searcher, visible)
        return count if occur is Occur.Must else max(0, searcher.num_docs - 1) - count

    def _count_visible(self, searcher: Any, field: str, term: str, caller: Principal) -> int:
        """Count the documents with a term that a caller sees."""
        if not searcher.doc_freq(field, term):
            return 0
        matching = (Occur.Must, self._match(field, term))
        return _count(searcher, Query.boolean_query([matching, self._restrict(caller)]))

    def _count_visible_terms(self, terms: Sequence[str], caller: Principal) -> TermStatistics:
        searcher = self._index.searcher()
        return TermStatistics(
            documents=self._count_all_visible(searcher, caller),
            frequencies={t: self._count_visible(searcher, _TEXT, t, caller) for t in terms},
            speakers=frozenset(
                t for t in terms if self._count_visible(searcher, _SPEAKER, t, caller)
            ),
        )

    def _count_terms(self, terms: Sequence[str]) -> TermStatistics:
        searcher = self._index.searcher()
        documents = max(0, searcher.num_docs - 1)
        # Deleted documents are counted until they are merged away.
        return TermStatistics(
            documents=documents,
            frequencies={term: min(documents, searcher.doc_freq(_TEXT, term)) for term in terms},
            speakers=frozenset(term for term in terms if searcher.doc_freq(_SPEAKER, term)),
        )

    def begin(self, *, afresh: bool = False) -> None:
        with self._writing:
            self._abandon_fresh()
            if self._damaged:
                self._close_writer()
                self._clear_folder("found while reading")
                self._index = self._open_index()
            self._generation = self._guard(self._newest_generation) + 1
            if afresh:
                self._fresh = TantivyIndex(
                    self._beside("fresh"), for_team=self._for_team, analysis=self._analysis
                )

    def finish(self, *, cursor: int) -> None:
        with self._writing:
            if self._fresh is None:
                self._sweep(cursor)
            else:
                self._swap_fresh(self._fresh, cursor)
            if not self.stats().documents:
                self._close_writer()  # 2 MB and six threads, until there is something to write

    def _sweep(self, cursor: int) -> None:
        older = Query.range_query(
            self._index.schema, "generation", tantivy.FieldType.Integer, None, self._generation - 1
        )

        def sweep(writer: Any) -> None:
            writer.delete_documents_by_query(older)
            self._write(writer, {}, [], cursor)

        self._commit(sweep)

    def _swap_fresh(self, fresh: "TantivyIndex", cursor: int) -> None:
        """Put the fresh index in the place of this one.

        A crash meanwhile leaves the one, the other or none; an index that is missing is filled.
        """
        fresh.finish(cursor=cursor)
        fresh.close()
        self._fresh = None
        self._close_writer()
        old = self._beside("old")
        try:
            self._path.rename(old)
            self._beside("fresh").rename(self._path)
            self._index = self._open_index()
            remove_tree(old)
        except OSError as exc:
            raise IndexFailed(f"lexical index: {exc}") from exc

    def _abandon_fresh(self) -> None:
        fresh, self._fresh = self._fresh, None
        if fresh is not None:
            fresh.close()
            remove_tree(self._beside("fresh"), ignore_errors=True)

    def _beside(self, name: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{name}")

    def stats(self) -> IndexStats:
        searcher = self._guard(self._index.searcher)
        return IndexStats(
            documents=max(0, searcher.num_docs - 1), size_bytes=measure_size(self._path)
        )

    def list_damaged_files(self) -> list[str]:
        """Return the files of the last commit that do not match their checksums."""
        with self._writing:
            return _list_damaged_files(self._path)

    def close(self) -> None:
        with self._writing:
            self._abandon_fresh()
            self._close_writer()

    def _open_index(self) -> Any:
        """Open the index; remove it first if it is damaged.

        Tantivy never compares its checksums, and some damage ends the process. If that happens
        here, the next start sees the file `opening` and removes the index.
        """
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        opening = self._beside("opening")
        bad = [opening.name] if opening.exists() else _list_damaged_files(self._path)
        if bad:
            self._clear_folder(", ".join(bad[:5]))
        opening.touch(0o600)
        try:
            return self._guard(self._read)
        except IndexFailed as exc:
            self._clear_folder(str(exc))
            return self._guard(self._read)
        finally:
            opening.unlink()

    def _clear_folder(self, reason: str) -> None:
        log.warning("lexical.unusable", reason=reason)
        remove_tree(self._path)
        self._path.mkdir(mode=0o700)
        self._damaged = False

    def _read(self) -> Any:
        index = tantivy.Index(_schema(for_team=self._for_team), path=str(self._path))
        # Neither setting is stored with the index.
        index.register_tokenizer(
            _ANALYZER, tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        )
        index.config_reader("manual")
        self._index = index
        self._refresh()
        return index

    def _refresh(self) -> None:
        """Make the last commit visible to readers."""
        self._index.reload()
        # A question asks for it several times, a commit comes seldom. Only the writer keeps it: a
        # reader could keep an older one.
        self._cursor = self._read_cursor()

    def _read_cursor(self) -> int | None:
        searcher = self._index.searcher()
        query = Query.term_query(self._index.schema, "owner", _BOOKKEEPING, "basic")
        hits = searcher.search(query, 1, count=False).hits
        if not hits:
            return None
        (cursor,) = searcher.fast_field_values("at", [hits[0][1]])
        return int(cursor)

    def _newest_generation(self) -> int:
        """Return the highest generation of any document: a filling may have been abandoned."""
        newest = {"newest": {"max": {"field": "generation"}}}
        result = self._index.searcher().aggregate(Query.all_query(), newest)
        return int(result["newest"]["value"] or 0)

    def _write(
        self,
        writer: Any,
        owners: Iterable[Owner],
        analyzed: Sequence[str],
        cursor: int | None,
    ) -> None:
        for owner in owners:
            writer.delete_documents_by_term("owner", _short(owner))
        generation = f',"generation":{self._generation}}}'
        for document in analyzed:
            writer.add_json(document[:-1] + generation)
        if cursor is not None:
            writer.delete_documents_by_term("owner", _BOOKKEEPING)
            mark = tantivy.Document()
            mark.add_text("owner", _BOOKKEEPING)
            mark.add_text("kind", _BOOKKEEPING)
            mark.add_integer("at", cursor)
            mark.add_integer("generation", self._generation)
            writer.add_document(mark)

    def _commit(self, write: Callable[[Any], None]) -> None:
        if self._writer is None:
            self._writer = self._guard(lambda: self._index.writer(_HEAP_BYTES, 1))
        writer = self._writer

        def work() -> None:
            write(writer)
            writer.commit()
            self._refresh()

        try:
            self._guard(work)
        except BaseException:
            # The next commit of this writer would succeed without the failed batch: use another.
            self._writer = None
            try:
                self._guard(writer.rollback)
            except IndexFailed as exc:
                log.warning("lexical.rollback_failed", error=str(exc))
            raise

    def _close_writer(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            self._guard(writer.wait_merging_threads)

    def _boost_term(self, field: str, term: str, weight: float) -> Any:
        query = self._match(field, term)
        return query if weight == 1.0 else Query.boost_query(query, weight)

    def _match(self, field: str, term: str) -> Any:
        return Query.term_query(self._index.schema, field, term, "freq")

    def _filters(self, scope: SearchScope) -> Iterator[tuple[Any, Any]]:
        exact = [*scope.exact().items(), *(("tags", tag) for tag in scope.tags)]
        for name, value in exact:
            yield Occur.Must, self._silent(self._term(name, value))
        if scope.domains:
            yield Occur.Must, self._silent(self._any("domain", sorted(scope.domains)))
        kinds = scope.kinds or frozenset(DocumentKind)
        if DocumentKind.EVENT in kinds:
            # Most documents are events: to leave out the others takes half the time.
            yield Occur.MustNot, self._any("kind", sorted({*DocumentKind, _BOOKKEEPING} - kinds))
        else:
            yield Occur.Must, self._silent(self._any("kind", sorted(kinds)))
        if scope.caller is not None:
            yield self._restrict(scope.caller)
        if scope.statuses:
            yield Occur.Must, self._silent(self._any("status", sorted(scope.statuses)))
        else:
            yield Occur.MustNot, self._any("status", sorted(scope.hidden))
        if scope.since > 0 or scope.until < MAX_MILLIS:
            within = Query.range_query(
                self._index.schema, "at", tantivy.FieldType.Integer, scope.since, scope.until
            )
            yield Occur.Must, self._silent(within)

    def _restrict(self, caller: Principal) -> tuple[Any, Any]:
        """Return the filter of what a caller sees, as `documents.is_visible` has it."""
        own = self._term("domain", caller.own_domain)
        if caller.projects is None:
            private = [(Occur.Must, self._term("domain", USER)), (Occur.MustNot, own)]
            return Occur.MustNot, Query.boolean_query(private)
        seen = [(Occur.Should, own)]
        if caller.projects:
            theirs = [
                (Occur.Must, self._any("project", sorted(caller.projects))),
                (Occur.MustNot, self._term("domain", SEVERAL)),
            ]
            seen.append((Occur.Should, Query.boolean_query(theirs)))
        return Occur.Must, self._silent(Query.boolean_query(seen))

    def _term(self, name: str, value: str) -> Any:
        return Query.term_query(self._index.schema, name, _short(value), "basic")

    def _any(self, name: str, values: Sequence[str]) -> Any:
        return Query.term_set_query(self._index.schema, name, [_short(value) for value in values])

    @staticmethod
    def _silent(query: Any) -> Any:
        """Return the query as a filter without influence on the score."""
        return Query.const_score_query(query, _NO_SCORE)

    def _load_hit(self, searcher: Any, address: Any, score: float) -> IndexHit:
        return self._guard(lambda: _parse_reference(searcher.doc(address)["ref"][0], score))

    def _guard(self, work: Callable[[], T]) -> T:
        """Run `work` and turn its failures, including panics, into IndexFailed."""
        try:
            return work()
        except Exception as exc:
            self._cursor = None  # `cursor` reads it again, and notices the damage
            raise IndexFailed(f"lexical index: {exc}") from exc
        except BaseException as exc:
            if type(exc).__name__ != "PanicException":
                raise
            self._damaged = True
            raise IndexFailed(f"lexical index: {exc}") from exc


def _count(searcher: Any, query: Any) -> int:
    """Count the matching documents, without removed ones that no merge has taken out yet."""
    return int(searcher.search(query, 1, count=True).count)


def _schema(*, for_team: bool) -> Any:
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("owner", tokenizer_name="raw", index_option="basic")
    builder.add_text_field("ref", stored=True, tokenizer_name="raw", index_option="basic")
    for name in ("at", "generation"):
        builder.add_integer_field(name, indexed=False, fast=True)
    for name in (_TEXT, _ABOUT, _SPEAKER):
        builder.add_text_field(name, tokenizer_name=_ANALYZER, index_option="freq")
    if for_team:
        builder.add_text_field(_IMPACT, tokenizer_name=_ANALYZER, index_option="basic")
    for name in (*_RAW, "tags"):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    return builder.build()


def _analyze(held: Sequence[Document]) -> list[str]:
    """Return the fields of the documents as JSON, without the generation."""
    return [json.dumps(_describe(document)) for document in held]


def _analyze_for_team(held: Sequence[Document]) -> list[str]:
    described = map(_describe, held)
    return [
        json.dumps(each | {_IMPACT: " ".join(impacts.list_tokens(str(each[_TEXT]).split()))})
        for each in described
    ]


def _describe(document: Document) -> dict[str, object]:
    raw = {name: _short(getattr(document, name)) for name in _RAW}
    who = document.speaker or document.role
    return {
        **raw,
        "owner": _short(document.owner),
        "ref": _format_reference(document),
        "at": document.at_ms,
        _TEXT: " ".join(analysis.extract_terms(documents.join_text(document))),
        _SPEAKER: " ".join(analysis.extract_terms(who)),
        _ABOUT: " ".join(analysis.extract_terms(documents.describe_origin(document))),
        "domain": [_short(domain) for domain in domain_names(document.domain)],
        "tags": [_short(tag) for tag in document.tags],
    }


def _format_reference(document: Document) -> str:
    """Return the stored part of a document. Only its last part, the id, may have a tab."""
    return f"{document.kind}\t{document.at_ms}\t{document.session}\t{document.id}"


def _parse_reference(reference: str, score: float) -> IndexHit:
    kind, at_ms, session, name = reference.split("\t", 3)
    return IndexHit(DocumentKind(kind), name, Millis(int(at_ms)), session, score)


def _short(value: str) -> str:
    if len(value) <= _LONGEST_TERM:
        return value
    return f"sha256:{hashlib.sha256(value.encode()).hexdigest()}"


def _list_damaged_files(path: Path) -> list[str]:
    """Return the files of the last commit that do not match the checksum in their footer."""
    if not (path / "meta.json").exists():
        return []
    try:
        meta = json.loads((path / "meta.json").read_bytes())
        live = {segment["segment_id"].replace("-", "") for segment in meta["segments"]}
    except (ValueError, LookupError, TypeError, AttributeError):
        return ["meta.json"]
    return sorted(
        file.name
        for file in path.iterdir()
        if file.name.split(".")[0] in live and not _is_intact(file.read_bytes())
    )


def _is_intact(content: bytes) -> bool:
    try:
        size, _magic = struct.unpack("<II", content[-8:])
        checksum = json.loads(content[-8 - size : -8])["crc"]
    except (struct.error, ValueError, KeyError, TypeError):
        return False
    return zlib.crc32(memoryview(content)[: -8 - size]) == int(checksum)
