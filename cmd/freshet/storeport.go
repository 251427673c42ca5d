package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/store"
	"github.com/freshet/freshet/web"
)

// An exported is one line of an export: one of its fields is set. Results and
// history are not exported: a backup carries them.
type exported struct {
	Endpoint *registry.Endpoint `json:"endpoint,omitempty"`
	Token    *registry.Token    `json:"token,omitempty"`
	Query    *registry.Query    `json:"query,omitempty"`
	Profile  *registry.Profile  `json:"profile,omitempty"`
}

// A withStore opens the store, calls do and closes it.
type withStore func(do func(*store.DB) error) error

func exportCommand(w *world, open withStore) *cobra.Command {
	return &cobra.Command{Use: "export", Short: "Print endpoints, tokens, registrations and profiles, one JSON object a line", Args: cobra.NoArgs,
		Long: `Prints what was configured and registered: endpoints, tokens (their hashes),
queries with their holders, and profiles. The output holds the endpoints' secrets. Results and
history are not part of it; 'freshet backup' carries those.`,
		Example: "  freshet store export --data old >registrations.jsonl\n  freshet store import --data new registrations.jsonl",
		RunE: func(*cobra.Command, []string) error {
			return open(func(db *store.DB) error { return export(db, func(r exported) error { return printJSON(w.stdout, r) }) })
		}}
}

func export(db *store.DB, put func(exported) error) error {
	endpoints, err := db.Endpoints()
	if err != nil {
		return err
	}
	for _, e := range endpoints {
		if err := put(exported{Endpoint: &e}); err != nil {
			return err
		}
	}
	tokens, err := db.Tokens()
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if err := put(exported{Token: &t}); err != nil {
			return err
		}
	}
	for cursor, more := "", true; more; more = cursor != "" {
		var page []web.Item
		if page, cursor, err = db.List(web.Filter{}, cursor, 500); err != nil {
			return err
		}
		for _, item := range page {
			if err := put(exported{Query: &item.Query}); err != nil {
				return err
			}
		}
	}
	return exportProfiles(db, put)
}

func exportProfiles(db *store.DB, put func(exported) error) error {
	for cursor, more := "", true; more; more = cursor != "" {
		var page []web.ProfileItem
		var err error
		if page, cursor, err = db.ListProfiles(web.ProfileFilter{}, cursor, 500); err != nil {
			return err
		}
		for _, item := range page {
			if err := put(exported{Profile: &item.Profile}); err != nil {
				return err
			}
		}
	}
	return nil
}

func importCommand(w *world, data *string) *cobra.Command {
	return &cobra.Command{Use: "import FILE", Short: "Add what an export holds (- for standard input); what exists stays", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			in := w.stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage("%v", err)
				}
				defer f.Close()
				in = f
			}
			db, err := store.Open(*data, store.Options{})
			if err != nil {
				return err
			}
			defer db.Close()
			added, there, err := importAll(db, in)
			fmt.Fprintf(w.stderr, "%d added, %d were there already\n", added, there)
			return err
		}}
}

// errThere says that a record's name or id is taken.
var errThere = errors.New("there already")

// importAll adds record by record; each is one transaction.
func importAll(db *store.DB, in io.Reader) (added, there int, err error) {
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	for {
		var r exported
		if err := d.Decode(&r); errors.Is(err, io.EOF) {
			return added, there, nil
		} else if err != nil {
			return added, there, usage("record %d: %v", added+there+1, err)
		}
		switch err := r.store(db); {
		case errors.Is(err, errThere), errors.Is(err, registry.ErrExists):
			there++
		case err != nil:
			return added, there, fmt.Errorf("record %d: %w", added+there+1, err)
		default:
			added++
		}
	}
}

func (r exported) store(db *store.DB) error {
	switch {
	case r.Endpoint != nil:
		_, err := db.EditEndpoint(r.Endpoint.Name, func(c *registry.Configured, found bool) error {
			if found {
				return errThere
			}
			c.Endpoint = *r.Endpoint
			return nil
		})
		return err
	case r.Token != nil:
		return db.PutToken(*r.Token)
	case r.Query != nil:
		_, err := db.EditQuery(r.Query.ID, func(q *registry.Query, found bool) error {
			if found {
				return errThere
			}
			*q = *r.Query
			return nil
		})
		return err
	case r.Profile != nil:
		_, err := db.EditProfile(r.Profile.ID, func(p *registry.Profile, found bool) error {
			if found {
				return errThere
			}
			*p = *r.Profile
			return nil
		})
		return err
	}
	return usage("neither endpoint, token, query nor profile")
}
