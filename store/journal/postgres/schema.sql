-- The schema of one journal. {schema} is its quoted name.
CREATE SCHEMA IF NOT EXISTS {schema};

CREATE TABLE IF NOT EXISTS {schema}.entry (
	seq   bigint PRIMARY KEY,
	id    text NOT NULL UNIQUE,
	prev  bytea NOT NULL,
	hash  bytea NOT NULL,
	cmd   bytea NOT NULL,
	total bigint NOT NULL, -- bytes of all commands up to here
	at    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Commands are compressed already. ALTER TABLE waits for all that read the table, such as pg_dump, and all
-- others then wait for it, so it runs only where it is needed.
DO $$ BEGIN
	IF (SELECT attstorage FROM pg_attribute WHERE attrelid = '{schema}.entry'::regclass AND attname = 'cmd') <> 'e' THEN
		SET LOCAL lock_timeout = '5s';
		ALTER TABLE {schema}.entry ALTER COLUMN cmd SET STORAGE EXTERNAL;
	END IF;
END $$;

-- The only row of head is locked by every append, which makes numbers dense and commits ordered.
CREATE TABLE IF NOT EXISTS {schema}.head (
	one   boolean PRIMARY KEY DEFAULT true CHECK (one),
	first bigint NOT NULL,
	seq   bigint NOT NULL,
	hash  bytea NOT NULL,
	total bigint NOT NULL
);

-- append is one function so that no lock is held while a client is slow or gone. mark is the last
-- entry that the caller knows, 0 for none.
CREATE OR REPLACE FUNCTION {schema}.append(ids text[], cmds bytea[], mark bigint, mark_hash bytea,
	OUT seqs bigint[], OUT head bigint, OUT head_hash bytea) LANGUAGE plpgsql AS $$
DECLARE
	h {schema}.head%ROWTYPE;
	n bigint;
	known bytea;
	before bytea;
BEGIN
	SELECT * INTO STRICT h FROM {schema}.head FOR UPDATE;
	IF mark > h.seq THEN
		RAISE EXCEPTION '%', h.seq USING ERRCODE = 'FJ001';
	END IF;
	SELECT e.hash INTO known FROM {schema}.entry e WHERE e.seq = mark;
	IF known <> mark_hash OR mark = h.seq AND mark > 0 AND h.hash <> mark_hash THEN
		RAISE EXCEPTION '%', mark USING ERRCODE = 'FJ002';
	END IF;
	FOR i IN 1 .. cardinality(ids) LOOP
		SELECT e.seq INTO n FROM {schema}.entry e WHERE e.id = ids[i];
		IF n IS NULL THEN
			n := h.seq + 1;
			before := h.hash;
			h.seq := n;
			h.total := h.total + octet_length(cmds[i]);
			h.hash := sha256(before || int8send(n) || int4send(octet_length(ids[i])) || convert_to(ids[i], 'UTF8') || cmds[i]);
			INSERT INTO {schema}.entry (seq, id, prev, hash, cmd, total) VALUES (n, ids[i], before, h.hash, cmds[i], h.total);
		END IF;
		seqs := seqs || n;
	END LOOP;
	UPDATE {schema}.head SET seq = h.seq, hash = h.hash, total = h.total;
	head := h.seq;
	head_hash := h.hash;
END $$;
