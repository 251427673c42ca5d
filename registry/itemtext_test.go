package registry

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseItem(t *testing.T) {
	for text, want := range map[string]Item{
		"trams every 5m slack 1m": {Query: "trams", When: When{Every: Span{Time: 5 * time.Minute},
			Slack: Span{Time: time.Minute}}},
		"trams every 5 slots slack 1 slot": {Query: "trams", When: When{Every: Span{Slots: 5},
			Slack: Span{Slots: 1}}},
		"trams every 5slots": {Query: "trams", When: When{Every: Span{Slots: 5}}},
		`"free spaces" on tunnel within "2 slots"`: {Query: "free spaces", When: When{Changed: "tunnel",
			Within: Span{Slots: 2}}},
		`news on rates where headline contains "crude oil" where n > 5`: {Query: "news", When: When{Changed: "rates",
			Where: []Condition{{"headline", "contains", "crude oil"}, {"n", ">", "5"}}}},
		"\tlots  predicted within 4m": {Query: "lots", When: When{Predicted: true,
			Within: Span{Time: 4 * time.Minute}}},
	} {
		got, err := ParseItem(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s reads as %+v, %v", text, got, err)
		}
	}
	for text, why := range map[string]string{
		"": "write QUERY every", "trams": "write QUERY every", "trams whenever": `"whenever" is not one of every`,
		"trams every":           `missing after "every"`,
		"trams every 5m for 1m": `"for" is not one of`, "trams every soon": `"soon" is neither`, "trams on x where a =": `missing after "where"`,
		"trams every 5m every 6m": `"every" is given twice`, `"trams every 5m`: "not closed",
	} {
		if _, err := ParseItem(text); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want %q", text, err, why)
		}
	}
}

// An item that is written and read is unchanged.
func TestItemsAreReadAsWritten(t *testing.T) {
	word := rapid.StringMatching(`[a-z_?:/ ]{1,12}`).Filter(func(s string) bool { return s != "" })
	span := rapid.Custom(func(t *rapid.T) Span {
		if rapid.Bool().Draw(t, "slots") {
			return Span{Slots: rapid.Uint64Range(1, 1000).Draw(t, "n")}
		}
		return Span{Time: time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "time"))}
	})
	rapid.Check(t, func(t *rapid.T) {
		it := Item{Query: word.Draw(t, "query")}
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			it.When = When{Every: span.Draw(t, "every"), Slack: span.Draw(t, "slack")}
		case 1:
			it.When = When{Changed: word.Draw(t, "changed"), Within: span.Draw(t, "within")}
			for range rapid.IntRange(0, 3).Draw(t, "conditions") {
				it.When.Where = append(it.When.Where, Condition{word.Draw(t, "var"), rapid.SampledFrom(operators).Draw(t, "op"),
					rapid.StringMatching(`[a-z0-9 ]{0,8}`).Draw(t, "value")})
			}
		default:
			it.When = When{Predicted: true, Within: span.Draw(t, "within")}
		}
		if again, err := ParseItem(it.String()); err != nil || !reflect.DeepEqual(again, it) {
			t.Fatalf("%s reads as %+v, %v; it was %+v", it, again, err, it)
		}
	})
}
