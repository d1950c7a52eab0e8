"""Embeddings that stay in step with their documents, found by key and by vector.

    python examples/embeddings.py [DIRECTORY]

Documents are written and edited in one table; another has an embedding of each. The costly part is the model, so it is
asked only about documents that changed: a change query says which. An embedding knows its document by row id, which no
edit, upsert or compaction changes, so neither table needs a key of its own. Two indexes of the embeddings, one by
document and one by vector, answer before and after a compaction without a byte of them written again.

No Spark is started here. Opened with a session, the same calls run on it.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast import DeltaTable

WIDTH = 32
TOPICS = ("whales", "bridges", "violins", "volcanoes")


@dataclass(frozen=True)
class Kept:
    """What the example ends with: what the model was asked, run by run, and what the indexes did."""

    embedded: tuple[int, ...]
    nearest_before: list[int]
    nearest_after: list[int]
    index_before: dict[str, int]
    index_after: dict[str, int]
    recall: float


def main(where: Path) -> Kept:
    documents = DeltaTable.createOrReplace().location(str(where / "documents"))
    documents = documents.addColumn("title", "string").addColumn("text", "string").execute()
    columns = pa.schema([("document", pa.int64()), ("title", pa.string()), ("vec", pa.list_(pa.float32()))])
    embeddings = DeltaTable.createOrReplace().location(str(where / "embeddings")).addColumns(columns).execute()
    follower = Follower(documents, embeddings)

    print("\n2,000 documents arrive in four parcels, and all of them are embedded.")
    embedded = []
    for first in range(0, 2000, 500):
        documents.append(written(range(first, first + 500)))
        embedded.append(follower.catch_up())
    embeddings.createIndex("document")
    embeddings.createIndex(
        "vec", kind="vector", method="flat"
    )  # `auto` needs the extra holdfast[vector] from 20,000 on

    print("\nA day goes by: ten are rewritten, one is taken back, three are new; then files are compacted.")
    documents.update("title LIKE 'whales 10_'", {"text": "concat(text, ', revised')"})
    documents.delete("title = 'violins 6'")
    documents.append(written(range(2000, 2003)))
    documents.optimize().executeCompaction()
    embedded.append(follower.catch_up())
    embedded.append(follower.catch_up())
    print(f"The model was asked about {embedded} documents: those fourteen, and then none.")

    question = embed(["a song of whales"])[0]
    before = embeddings.nearest("vec", question, k=5, columns=["document", "title"])
    print(f"\nNearest to the question: {before.column('title').to_pylist()}")
    print(f"{embeddings.explainNearest('vec', question)}, as the index has not seen them yet")
    for name in ("document", "vec"):
        embeddings.refreshIndex(name)

    index = last_written(where / "embeddings" / "_holdfast" / "index")
    done = embeddings.optimize().executeCompaction()
    after = embeddings.nearest("vec", question, k=5, columns=["document", "title"])
    print(f"\n{done.metrics['numRemovedFiles']} files became {done.metrics['numAddedFiles']}; the answer is the same,")
    print(f"and of {len(index)} index files none was written again.")

    ids = after.column("document").to_pylist()
    print("\nFrom embedding to document by its id, without a scan:")
    for row in documents.take(ids[:2], ["title", "text"]).to_pylist():
        print(f"  {row['title']}: {row['text']}")
    print("And from document to embedding by key:")
    found = embeddings.lookup(document=ids[0], columns=["title"])
    print(f"  {found.to_pylist()}")

    return Kept(
        tuple(embedded),
        before.column("document").to_pylist(),
        ids,
        index,
        last_written(where / "embeddings" / "_holdfast" / "index"),
        embeddings.recall("vec", sample=20),
    )


class Follower:
    """Brings the embeddings up to date, by what changed in the documents since it last looked."""

    def __init__(self, documents: DeltaTable, embeddings: DeltaTable) -> None:
        self._documents = documents
        self._embeddings = embeddings
        self._token: str | None = None  # in production, kept with the job's other state

    def catch_up(self) -> int:
        """How many documents the model was asked about."""
        asked = {"resume": self._token} if self._token else {"start": 1}
        changes = self._documents.changes(kind="upsert", includeDeleted=True, **asked)
        rows = changes.toArrow()
        if len(rows):
            self._merge(rows, changes.endVersion)
        self._token = changes.resumeToken
        return len(rows)

    def _merge(self, rows: pa.Table, version: int) -> None:
        source = pa.table(
            {
                "document": rows.column("_row_id"),
                "title": rows.column("title"),
                "vec": pa.array(list(embed(rows.column("text").to_pylist())), pa.list_(pa.float32())),
                "gone": [change == "delete" for change in rows.column("_change_type").to_pylist()],
            }
        )
        # Should this job die before it keeps its token, the same changes come again, and `txn` leaves them out.
        merge = self._embeddings.alias("t").merge(source, "t.document = s.document", txn=("embeddings", version))
        values = {"document": "s.document", "title": "s.title", "vec": "s.vec"}
        (
            merge.whenMatchedDelete("s.gone")
            .whenMatchedUpdate(set=values)
            .whenNotMatchedInsert("NOT s.gone", values=values)
            .execute()
        )


def written(numbers: range) -> pa.Table:
    titles = [f"{TOPICS[n % len(TOPICS)]} {n // len(TOPICS)}" for n in numbers]
    return pa.table({"title": titles, "text": [f"an essay on {title}" for title in titles]})


def embed(texts: list[str]) -> np.ndarray:
    """Stands for a model: texts on one topic lie near each other, and every text has a place of its own."""
    centres = np.random.default_rng(0).normal(size=(len(TOPICS), WIDTH))
    vectors = np.empty((len(texts), WIDTH), np.float32)
    for row, text in enumerate(texts):
        topic = next(n for n, name in enumerate(TOPICS) if name in text)
        seed = int.from_bytes(text.encode()[-8:], "little")
        vectors[row] = 4 * centres[topic] + np.random.default_rng(seed).normal(size=WIDTH)
    return vectors


def last_written(directory: Path) -> dict[str, int]:
    """The files below a directory and when each was last written."""
    return {
        str(path.relative_to(directory)): path.stat().st_mtime_ns for path in directory.rglob("*") if path.is_file()
    }


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="holdfast-")))
