package config

import (
	"github.com/spf13/cobra"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/registry"
)

// Flags are the flags of commands that read the configuration.
type Flags struct {
	file      string
	endpoints []string
	flags     Config
	set       func(name string) bool // whether the flag was given
}

func (s *Flags) Register(c *cobra.Command) {
	f := c.Flags()
	d := Default()
	f.StringVar(&s.file, "config", "", "configuration file (YAML)")
	f.StringVar(&s.flags.Listen, "listen", d.Listen, "address to serve on")
	f.StringVar(&s.flags.PublicURL, "public-url", "", "URL under which clients reach this server (default: from --listen)")
	f.StringVar(&s.flags.Data, "data", d.Data, "directory of the store")
	f.StringVar(&s.flags.Contact, "contact", "", "address for endpoint operators, part of the User-Agent")
	f.StringArrayVar(&s.endpoints, "endpoint", nil, "endpoint as NAME=URL; may be given several times")
	f.StringVar(&s.flags.Log.Level, "log-level", d.Log.Level, "debug, info, warn or error")
	f.StringVar(&s.flags.Log.Format, "log-format", d.Log.Format, "auto, text or json")
	f.BoolVar(&s.flags.Insecure, "insecure", false, "serve without tokens beyond loopback and behind proxies: everyone who "+
		"reaches the server may do everything")
	s.set = f.Changed
}

// Load reads all sources in their order and checks the configuration.
func (s *Flags) Load(w *cli.Env) (*Config, error) {
	c := Default()
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
	warnOfUnknown(w)
	if err := s.override(&c); err != nil {
		return nil, err
	}
	c.File, c.Sources = file, s.sourcesOf(file, w.Getenv)
	return &c, c.Check()
}

func (s *Flags) override(c *Config) error {
	for flag, v := range map[string]struct{ dst, src *string }{
		"listen": {&c.Listen, &s.flags.Listen}, "public-url": {&c.PublicURL, &s.flags.PublicURL},
		"data": {&c.Data, &s.flags.Data}, "contact": {&c.Contact, &s.flags.Contact},
		"log-level": {&c.Log.Level, &s.flags.Log.Level}, "log-format": {&c.Log.Format, &s.flags.Log.Format},
	} {
		if s.set(flag) {
			*v.dst = *v.src
		}
	}
	c.Insecure = s.flags.Insecure
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
