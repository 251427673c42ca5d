package notify

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/freshet/freshet/registry"
)

// ReadWish reads the filter and the rate of freshet.v1 from URL parameters:
//
//	min_jaccard=0.2          a number from 0 to 1
//	min_rows=5               a whole number
//	vars=a,b                 SELECT, unordered: only these variables
//	where=temp:>=:20         the same: VAR:OP:VALUE; all of several must be met
//	rate=5s                  the least time between two messages
//
// Its errors are for whoever wrote the URL.
func ReadWish(q url.Values) (Filter, time.Duration, error) {
	var f filter
	var err error
	if s := q.Get("min_jaccard"); s != "" {
		if f.MinJaccard, err = strconv.ParseFloat(s, 64); err != nil || f.MinJaccard != f.MinJaccard {
			return Filter{}, 0, fmt.Errorf("min_jaccard is a number from 0 to 1, not %.64q", s)
		}
	}
	if s := q.Get("min_rows"); s != "" {
		if f.MinRows, err = strconv.Atoi(s); err != nil {
			return Filter{}, 0, fmt.Errorf("min_rows is a whole number, not %.64q", s)
		}
	}
	for _, s := range q["vars"] {
		f.Vars = append(f.Vars, strings.Split(s, ",")...)
	}
	for _, s := range q["where"] {
		name, rest, _ := strings.Cut(s, ":")
		op, value, ok := strings.Cut(rest, ":")
		if !ok {
			return Filter{}, 0, fmt.Errorf("where has the form VAR:OP:VALUE, as in temp:>=:20, not %.64q", s)
		}
		f.Where = append(f.Where, registry.Condition{Var: name, Op: op, Value: value})
	}
	rate, err := readRate(q.Get("rate"))
	if err != nil {
		return Filter{}, 0, err
	}
	raw, err := json.Marshal(&f) // one reader of filters is enough
	if err != nil {
		return Filter{}, 0, err
	}
	all, err := ParseFilter(raw)
	return all, rate, err
}

func readRate(s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	var d registry.Duration
	if err := d.UnmarshalText([]byte(s)); err != nil {
		return 0, fmt.Errorf("rate is a duration like 5s, not %.64q", s)
	}
	if time.Duration(d) > maxRate {
		return 0, fmt.Errorf("rate is at most %s", maxRate)
	}
	return time.Duration(d), nil
}
