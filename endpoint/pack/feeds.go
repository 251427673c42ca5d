package pack

import (
	_ "embed"
	"slices"
	"sync"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/registry/feed"
)

// A Feed is a built-in feed, and the page that says so.
type Feed struct {
	feed.Definition `yaml:",inline"`
	Source          string `json:"source" yaml:"source"`
}

//go:embed feeds.yaml
var feeds []byte

// Feeds returns the feeds that packs use.
var Feeds = sync.OnceValue(func() (list []Feed) {
	if err := yaml.UnmarshalWithOptions(feeds, &list, yaml.Strict()); err != nil {
		panic(err) // the file is part of the program
	}
	return list
})

// WithFeeds returns the defined feeds and, after them, those built-in ones whose names are free.
func WithFeeds(defined []feed.Definition) []feed.Definition {
	list := slices.Clone(defined)
	for _, f := range Feeds() {
		if !slices.ContainsFunc(defined, func(d feed.Definition) bool { return d.Name == f.Name }) {
			list = append(list, f.Definition)
		}
	}
	return list
}
