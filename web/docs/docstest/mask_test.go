package docstest

import "testing"

func TestShows(t *testing.T) {
	for _, c := range []struct {
		shown, output string
		want          bool
	}{
		{"a\nb\n", "a\nb\n", true},
		{"a\nb\n", "a\nc\n", false},
		{"a\nb\n", "a\n", false},
		{"a\n…\nc\n", "a\nb\nb\nc\n", true},
		{"a\n…\nc\n", "a\nc\n", true},
		{"a\n…\nc\n", "a\nb\n", false},
		{"  …\n}\n", "{\n}\n", true},
		{"at 2026-11-01T12:00:00Z in 1.2 ms\n", "at 2031-01-21T02:10:07.123Z in 12 s\n", true},
		{"12:00:00 birth place: Ulm\n", "07:11:23 birth place: Ulm\n", true},
		{"12:00:00 birth place: Ulm\n", "07:11:23 birth place: Bonn\n", false},
		{"q_4s8ho60se9o5ch0hl2qqaufkan  live\n", "q_9gqf3rglq1kg3atndacgn5mucg      live\n", true},
		{"q_4s8ho60se9o5ch0hl2qqaufkan  live\n", "q_9gqf3rglq1kg3atndacgn5mucg  stale\n", false},
		{"slot 1: 1 ran, 0 changed, 0 failed\n", "slot 12: 0 ran, 0 changed, 0 failed\n", true},
		{"slot 1: 1 ran, 0 changed, 0 failed\n", "slot 1: 1 ran, 0 changed, 1 failed\n", false},
		{"slot 1: 1 ran, 0 changed, 0 failed, 0 passed over, 0.00306 of 2 s\n",
			"slot 1: 1 ran, 0 changed, 0 failed, 0 passed over, 0.07 of 2 s\n", true},
		{"thing,free\nnorth,2\n", "thing,free\r\nnorth,2\r\n", true},
		{"n3  ready  leases …  http\n", "n3  ready  leases 2  lag 3  http\n", true},
		{"n3  ready  leases …  http\n", "n3  silent  leases 2  lag 3  http\n", false},
		{"n3  ready  leases …\n", "n3  ready  leases\n", false},
		{"2 rows at 1\n", "3 rows at 1\n", false},
		{"\ta b4awKhZeZSNhnKT2lcjHiUpPzdBTQjFvQMraXc_akqa\n", "\ta -akqa_4awKhZeZSNhnKT2lcjHiUpPzdBTQjFvQMra--\n", true},
		{"-akqa_4awKhZeZSNhnKT2lcjHiUpPzdBTQjFvQMraXc\n", "b-kqa_4awKhZeZSNhnKT2lcjHiUpPzdBTQjFvQMraX-\n", true},
		{`{"seq":2,"slot":2}`, `{"seq":2,"slot":3}`, true},
		{`{"seq":2,"slot":2}`, `{"seq":3,"slot":2}`, false},
		{"watching a\nasking people; it runs again at 12:00:00\npeople answered", "watching a\npeople answered", true},
		{"asking people", "people answered", false},
	} {
		if got := Shows(c.shown, c.output); got != c.want {
			t.Errorf("%q shows %q: %t, masked %q and %q", c.shown, c.output, got, Mask(c.shown), Mask(c.output))
		}
	}
}
