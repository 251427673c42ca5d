#!/usr/bin/env python3
"""Makes a history that "freshet bench record" reads from the public data of Nomisma.org.

    git clone https://github.com/nomisma/data nomisma-data
    python3 nomisma.py nomisma-data nomisma 200

Nomisma.org publishes its concepts as RDF/XML, under CC BY, and commits them every night. Each commit of the main branch
since they are RDF/XML, from 3 February 2015, that changes a triple becomes a changeset. The last number says how many there
are at most, and a fourth argument names a commit other than that of 2015 to begin with. The same commits give the same files.

A blank node becomes an IRI that follows from its content, so that it changes only if its content does. A file that is not
well-formed keeps its last good content. Needs Python 3.8 and git, and nothing else.
"""

import collections
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import xml.etree.ElementTree as xml
from urllib.parse import urljoin

FIRST = "aa9161255825fa46d12771eba05570fb571c4bac"
FILES = re.compile(r"(?:(?:id|symbol|editor|spreadsheets)/.*|id|symbol|editor)\.rdf$")
RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
XML = "{http://www.w3.org/XML/1998/namespace}"
A = "<" + RDF[1:-1] + "type>"


def iri(text, base):
    """A reference as a term. Characters that no IRI has are percent-encoded."""
    full = urljoin(base, text.strip())
    bad = lambda m: "".join("%%%02X" % b for b in m[0].encode())
    return "<" + re.sub(r'[\x00-\x20<>"{}|\\^`\[\]\ufffd]', bad, full) + ">"


def literal(text, suffix):
    for char, escape in (("\\", "\\\\"), ('"', '\\"'), ("\n", "\\n"), ("\r", "\\r"), ("\t", "\\t")):
        text = text.replace(char, escape)
    return '"' + text + '"' + suffix


def name(tag):
    return "<" + tag.replace("{", "").replace("}", "") + ">"


def reference(element, word):
    value = element.get(RDF + word)
    return element.get(word) if value is None else value


def node(element, base, lang, owner, out):
    """Adds the triples of a node element, and returns its term."""
    lang = element.get(XML + "lang", lang)
    about = reference(element, "about")
    if about is not None:
        subject = iri(about, base)
    else:
        content = owner + xml.canonicalize(xml.tostring(element, encoding="unicode"), strip_text=True)
        subject = "<http://nomisma.org/.well-known/genid/" + hashlib.sha256(content.encode()).hexdigest()[:24] + ">"
    if element.tag != RDF + "Description":
        out.add(f"{subject} {A} {name(element.tag)} .")
    for p in element:
        predicate, own = name(p.tag), p.get(XML + "lang", lang)
        resource, datatype, children = reference(p, "resource"), p.get(RDF + "datatype"), list(p)
        if resource is not None:
            terms = [iri(resource, base)]
        elif children:
            terms = [node(c, base, own, subject + predicate, out) for c in children]
        elif datatype:
            terms = [literal(p.text or "", "^^" + iri(datatype, base))]
        else:
            terms = [literal(p.text or "", "@" + own if own else "")]
        out.update(f"{subject} {predicate} {term} ." for term in terms)
    return subject


def triples(path, content):
    """The triples of a file, None if it is not well-formed."""
    try:
        root = xml.fromstring(content)
    except (xml.ParseError, ValueError, LookupError):
        return None
    base, out = "http://nomisma.org/" + path[:-len(".rdf")], set()
    base = root.get(XML + "base", base)
    for element in root if root.tag == RDF + "RDF" else [root]:
        node(element, base, root.get(XML + "lang", ""), base, out)
    return out


class Repository:
    def __init__(self, path):
        self.path = path
        self.cat = subprocess.Popen(["git", "-C", path, "cat-file", "--batch"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def git(self, *args):
        return subprocess.run(["git", "-C", self.path, "-c", "core.quotepath=off", *args], check=True, capture_output=True).stdout.decode()

    def blob(self, sha):
        self.cat.stdin.write(sha.encode() + b"\n")
        self.cat.stdin.flush()
        size = int(self.cat.stdout.readline().split()[2])
        return self.cat.stdout.read(size + 1)[:-1]

    def commits(self, first):
        lines = self.git("log", "--first-parent", "--reverse", "--format=%H %ct", first + "..HEAD").split("\n")
        return [(sha, int(at)) for sha, at in (line.split() for line in lines if line)]

    def files(self, old, new):
        """The files that differ: path, and blob or None."""
        if old is None:
            rows = (line.split(None, 3) for line in self.git("ls-tree", "-r", "-z", new).split("\0") if line)
            return [(path, sha) for _, _, sha, path in rows if FILES.match(path)]
        words = self.git("diff-tree", "-r", "--raw", "--no-renames", "--no-abbrev", "-z", old, new).split("\0")[:-1]
        rows = zip(words[::2], words[1::2])
        return [(path, None if head.split()[4] == "D" else head.split()[3]) for head, path in rows if FILES.match(path)]


class Dataset:
    """The union of the triples of all files."""

    def __init__(self):
        self.of, self.count = {}, collections.Counter()

    def update(self, repository, files):
        """Returns the triples that went and that came."""
        before = {}
        for path, sha in files:
            new = set() if sha is None else triples(path, repository.blob(sha))
            if new is None:
                continue
            old = self.of.get(path, set())
            for t in old ^ new:
                before.setdefault(t, self.count[t] > 0)
                self.count[t] += 1 if t in new else -1
            self.of[path] = new
        went = sorted(t for t, was in before.items() if was and not self.count[t])
        return went, sorted(t for t, was in before.items() if not was and self.count[t])


def write(path, lines):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f, gzip.GzipFile("", "wb", fileobj=f, mtime=0) as z:
        z.writelines((line + "\n").encode() for line in lines)


def queries(lines):
    """Queries about the base: about resources, labels and classes that are spread over it."""
    parts = [line.split(" ", 2) for line in lines]
    label = "<http://www.w3.org/2004/02/skos/core#prefLabel>"
    resources = sorted({s for s, p, _ in parts if p == label})
    classes = sorted({o[:-2] for _, p, o in parts if p == A})
    spread = lambda n, of: of[:: max(1, len(of) // n)][:n]
    english = f'?s {label} ?label FILTER(LANG(?label) = "en")'
    for r in spread(80, resources):
        yield f"SELECT ?p ?o WHERE {{ {r} ?p ?o }}"
    for r in spread(50, resources[7:]):
        yield f"SELECT ?s ?p WHERE {{ ?s ?p {r} }}"
    for r in spread(20, resources[13:]):
        yield f"ASK {{ {r} <http://www.w3.org/2004/02/skos/core#exactMatch> ?other }}"
    for c in spread(20, classes):
        yield f"SELECT (COUNT(?s) AS ?n) WHERE {{ ?s {A} {c} }}"
    for c in spread(20, classes):
        yield f"SELECT ?s ?label WHERE {{ ?s {A} {c} . {english} }}"
    for c in spread(10, classes):
        yield f"SELECT ?p (COUNT(*) AS ?n) WHERE {{ ?s {A} {c} ; ?p ?o }} GROUP BY ?p"


def main(source, out, most="100000", first=FIRST):
    repository, data, done = Repository(source), Dataset(), 0
    _, base = data.update(repository, repository.files(None, first))
    write(out + "/base.nt.gz", base)
    with open(out + "/queries.jsonl", "w", encoding="utf-8") as f:
        for i, q in enumerate(queries(base)):
            f.write(json.dumps({"id": "nomisma-%03d" % i, "query": q}) + "\n")
    last, in_hour = first, collections.Counter()
    for commit, at in repository.commits(first):
        if done == int(most):
            break
        went, came = data.update(repository, repository.files(last, commit))
        last = commit
        if not went and not came:
            continue
        hour = time.strftime("%Y/%m/%d/%H", time.gmtime(at))
        path = f"{out}/changesets/{hour}/{in_hour[hour]:06d}"
        in_hour[hour] += 1
        for kind, lines in (("removed", went), ("added", came)):
            if lines:
                write(f"{path}.{kind}.nt.gz", lines)
        done += 1
    print(f"{len(base)} triples and {done} changesets in {out}")


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
