package store

// log checks the index of offsets against the changes, and their size.
func (c *checker) log() error {
	n, size := uint64(0), uint64(0)
	err := c.tx.Bucket(bChanges).ForEach(func(k, v []byte) error {
		n++
		size += uint64(len(k) + len(v))
		l, err := parseLogEntry(k, v)
		if err != nil {
			c.found("%v", err)
		} else if string(c.tx.Bucket(bOffsets).Get(key8(l.offset))) != string(k) {
			c.found("change %d of %s: not to be found by its offset %d", l.seq, l.query, l.offset)
		}
		if r := c.tx.Bucket(bSnapshots).Get(k); r != nil {
			size += uint64(len(k) + len(r))
		}
		return nil
	})
	counted := loadCounters(c.tx)
	if m := c.size(bOffsets, nil); m != n {
		c.found("%d offsets for %d changes", m, n)
	}
	if counted.logBytes != size {
		c.found("the log is counted as %d bytes and has %d", counted.logBytes, size)
	}
	if k, _ := c.tx.Bucket(bOffsets).Cursor().Last(); number(k) > counted.offset {
		c.found("offset %d was given, the counter is at %d", number(k), counted.offset)
	}
	return err
}

// old checks that retention may drop all changes except the newest of each query.
func (c *checker) old() error {
	expected := uint64(0)
	var before []byte
	err := c.tx.Bucket(bChanges).ForEach(func(k, v []byte) error {
		if before != nil && number(before) == number(k) {
			expected++
			l, err := parseLogEntry(before, c.tx.Bucket(bChanges).Get(before))
			if err == nil && c.tx.Bucket(bOld).Get(key8(l.offset)) == nil {
				c.found("change %d of %s: retention does not know it", l.seq, l.query)
			}
		}
		before = k
		return nil
	})
	if n := c.size(bOld, nil); n != expected {
		c.found("retention knows %d changes, not %d", n, expected)
	}
	return err
}
