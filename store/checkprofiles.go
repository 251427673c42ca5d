package store

import (
	"github.com/freshet/freshet/registry"
)

// profiles checks the data of each profile: its rounds are the open and the ended
// ones, captures are numbered without a gap, and the counts match.
func (c *checker) profiles() error {
	known := map[uint64]bool{}
	err := c.tx.Bucket(bProfiles).ForEach(func(id, v []byte) error {
		n, err := parseNeed(v)
		if err != nil {
			c.found("profile %s: %v", id, err)
			return nil
		}
		known[n.serial] = true
		if !owned(c.tx, n.space) {
			return nil // waits for the purge
		}
		if n.ID != string(id) || owner(c.tx, n.space) != n.Endpoint {
			c.found("profile %s: stored under another id or endpoint", id)
		}
		p, err := findProgress(c.tx, n.ID)
		if err != nil {
			c.found("%v", err)
			return nil
		}
		c.rounds(&n, &p)
		return nil
	})
	for _, bucket := range [][]byte{bRounds, bOpen, bEnds, bCaptures} {
		_ = c.tx.Bucket(bucket).ForEach(func(k, _ []byte) error { // the callback returns no error
			serial := number(k)
			waits := c.tx.Bucket(bPurge).Get(purgeKey(purgeRounds, serial)) != nil
			if !known[serial] && !waits {
				c.found("%s: number %d belongs to no profile", bucket, serial)
			}
			return nil
		})
	}
	return err
}

func (c *checker) rounds(n *storedProfile, p *storedProgress) {
	prefix := key8(n.serial)
	open, all, ends := c.size(bOpen, prefix), c.size(bRounds, prefix), c.size(bEnds, prefix)
	if open != p.Open || all != open+ends || p.Captured+p.Expired != p.Ends || ends > 0 && ends != p.Ends+1-p.First {
		c.found("profile %s: %d rounds, %d of them open and %d ended; counted are %+v", n.ID, all, open, ends, *p)
	}
	captured := uint64(0)
	cur := c.tx.Bucket(bEnds).Cursor()
	for k, v := cur.Seek(prefix); k != nil && hasPrefix(k, prefix); k, v = cur.Next() {
		r, err := parseRound(c.tx.Bucket(bRounds).Get(key16(n.serial, number(v))))
		switch {
		case err != nil:
			c.found("profile %s: end %d: %v", n.ID, number(skipNumber(k)), err)
			return
		case r.State == registry.RoundExpired:
			continue
		case r.State != registry.RoundCaptured || captured > 0 && r.Position.Seq != captured+1:
			c.found("profile %s: round %d is %s as capture %d, after %d", n.ID, r.Number, r.State, r.Position.Seq, captured)
		case number(c.tx.Bucket(bCaptures).Get(key16(n.serial, r.Position.Seq))) != number(skipNumber(k)):
			c.found("profile %s: capture %d is not to be found", n.ID, r.Position.Seq)
		}
		captured = r.Position.Seq
	}
	if captured > 0 && captured != p.Captured {
		c.found("profile %s: the last capture is %d, %d are counted", n.ID, captured, p.Captured)
	}
}
