package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// settings are the flags of commands that read the configuration.
type settings struct {
	file      string
	endpoints []string
	flags     Config
	set       func(name string) bool // whether the flag was given
}

func (s *settings) register(c *cobra.Command) {
	f := c.Flags()
	d := defaultConfig()
	f.StringVar(&s.file, "config", "", "configuration file (YAML)")
	f.StringVar(&s.flags.Listen, "listen", d.Listen, "address to serve on")
	f.StringVar(&s.flags.PublicURL, "public-url", "", "URL under which clients reach this server (default: from --listen)")
	f.StringVar(&s.flags.Data, "data", d.Data, "directory of the store")
	f.StringVar(&s.flags.Contact, "contact", "", "address for endpoint operators, part of the User-Agent")
	f.StringArrayVar(&s.endpoints, "endpoint", nil, "endpoint as NAME=URL; may be given several times")
	f.StringVar(&s.flags.Log.Level, "log-level", d.Log.Level, "debug, info, warn or error")
	f.StringVar(&s.flags.Log.Format, "log-format", d.Log.Format, "auto, text or json")
	f.BoolVar(&s.flags.insecure, "insecure", false, "serve without tokens beyond loopback and behind proxies: everyone who reaches the server may do everything")
	s.set = f.Changed
}

// load reads all sources in their order and checks the outcome.
func (s *settings) load(w *cli.Env) (*Config, error) {
	c := defaultConfig()
	file := s.file
	if file == "" {
		file = w.Getenv("FRESHET_CONFIG")
	}
	if file != "" {
		if err := c.readFile(file); err != nil {
			return nil, err
		}
	}
	if err := c.readEnv(w.Getenv); err != nil {
		return nil, err
	}
	if err := s.override(&c); err != nil {
		return nil, err
	}
	c.file, c.origins = file, s.originsOf(file, w.Getenv)
	return &c, c.check()
}

func (s *settings) override(c *Config) error {
	for flag, v := range map[string]struct{ dst, src *string }{
		"listen": {&c.Listen, &s.flags.Listen}, "public-url": {&c.PublicURL, &s.flags.PublicURL},
		"data": {&c.Data, &s.flags.Data}, "contact": {&c.Contact, &s.flags.Contact},
		"log-level": {&c.Log.Level, &s.flags.Log.Level}, "log-format": {&c.Log.Format, &s.flags.Log.Format},
	} {
		if s.set(flag) {
			*v.dst = *v.src
		}
	}
	c.insecure = s.flags.insecure
	for _, text := range s.endpoints {
		e, err := endpointFlag(text)
		if err != nil {
			return err
		}
		c.Endpoints = withEndpoint(c.Endpoints, e)
	}
	return nil
}

// withEndpoint adds e, or sets the URL of the endpoint with its name.
func withEndpoint(list []registry.Endpoint, e registry.Endpoint) []registry.Endpoint {
	for i := range list {
		if list[i].Name == e.Name {
			list[i].URL = e.URL
			return list
		}
	}
	return append(list, e)
}

func configCommand(w *cli.Env) *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Check and print the configuration",
		Long: `Values come from the file that --config or FRESHET_CONFIG names, FRESHET_…
variables and flags, the later winning. Every value but the lists of endpoints
and tokens has a variable, named after its key: FRESHET_LIMITS_BODY for
limits.body, with commas between the members of lists. An endpoint's setting
that was changed at the running server holds until its value in the file
changes.`}
	var asJSON bool
	c.PersistentFlags().BoolVar(&asJSON, "json", false, "print one JSON object")
	c.AddCommand(configCheck(w, &asJSON), configPrint(w, &asJSON))
	return c
}

func configCheck(w *cli.Env, asJSON *bool) *cobra.Command {
	var s settings
	c := &cobra.Command{Use: "check", Short: "Say whether the configuration is good", Args: cobra.NoArgs,
		Example: "  freshet config check --config freshet.yaml",
		RunE: func(*cobra.Command, []string) error {
			if _, err := s.checked(w); err != nil {
				return err
			}
			if *asJSON {
				return cli.PrintJSON(w.Stdout, map[string]bool{"good": true})
			}
			_, err := io.WriteString(w.Stderr, "the configuration is good\n")
			return err
		}}
	s.register(c)
	return c
}

func configPrint(w *cli.Env, asJSON *bool) *cobra.Command {
	var s settings
	a := &api{w: w}
	c := &cobra.Command{Use: "print", Short: "Print each value and where it comes from, secrets masked", Args: cobra.NoArgs,
		Long: `Prints what the configuration file, the environment and the flags say, and
behind each value that is no default where it comes from. Endpoints can be
changed at the running server, too: with --server their settings are those in
force there.`,
		Example: "  freshet config print --config freshet.yaml\n  freshet config print --server http://127.0.0.1:8080",
		RunE: func(c *cobra.Command, _ []string) error {
			conf, err := s.checked(w)
			if err != nil {
				return err
			}
			if a.server != "" {
				if err := conf.ofServer(c.Context(), a); err != nil {
					return err
				}
			}
			if *asJSON {
				doc, err := conf.printedJSON()
				if err != nil {
					return err
				}
				return cli.PrintJSON(w.Stdout, doc)
			}
			_, err = io.WriteString(w.Stdout, conf.printed(a.server))
			return err
		}}
	s.register(c)
	c.Flags().StringVar(&a.server, "server", "", "server whose endpoints are shown as they are in force")
	c.Flags().StringVar(&a.tokenFile, "token-file", "", "file that holds the token for it (default: FRESHET_TOKEN, FRESHET_TOKEN_FILE)")
	return c
}

// checked is load with the checks of endpoints that opening the store makes.
func (s *settings) checked(w *cli.Env) (*Config, error) {
	conf, err := s.load(w)
	if err == nil {
		err = checkEndpoints(conf)
	}
	return conf, err
}
