package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"

	"github.com/freshet/freshet/cmd/internal/cli"
	"github.com/freshet/freshet/endpoint/local"
	"github.com/freshet/freshet/registry"
)

// readFile reads the YAML file into c. Unknown keys are errors that name the line. A
// file with comments only and a key without a value change nothing.
func (c *Config) readFile(path string) error {
	b, err := fileText(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.UsageErrorf("the configuration file %s does not exist", path)
	} else if err != nil {
		return cli.UsageErrorf("the configuration file cannot be read: %v", err)
	}
	var tree any
	if yaml.Unmarshal(b, &tree) == nil && tree == nil {
		return nil // it would be decoded as a configuration without any value
	}
	d := yaml.NewDecoder(bytes.NewReader(b), yaml.Strict(), yaml.CustomUnmarshaler(wholeNumber), yaml.CustomUnmarshaler(moment))
	if err := d.Decode(c); err != nil {
		return cli.UsageErrorf("%s: %s%s", path, lineOf(b, err), plain(strings.TrimSpace(yaml.FormatError(err, false, true))))
	}
	if err := givenEndpoints(tree); err != nil {
		return err
	}
	if err := d.Decode(new(any)); !errors.Is(err, io.EOF) {
		return cli.UsageErrorf("%s: there is a second document in it; write everything into the first, before the line of dashes", path)
	}
	return nil
}

// wholeNumber reads a number and refuses one with a fraction, which would be cut off.
func wholeNumber(to *int, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		return err
	}
	switch v := v.(type) {
	case nil: // a key without a value
		return nil
	case uint64:
		if v <= math.MaxInt {
			*to = int(v)
			return nil
		}
	case int64:
		*to = int(v)
		return nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			*to = int(v)
			return nil
		}
	}
	return fmt.Errorf("%q is not a whole number", strings.TrimSpace(string(text)))
}

// moment reads a time and refuses other words, which would be no time.
func moment(to *time.Time, text []byte) error {
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil || v == nil {
		return err
	}
	t, err := time.Parse(time.RFC3339, fmt.Sprint(v))
	if err != nil {
		return fmt.Errorf("%q is not a time such as 2026-11-20T09:30:00Z", strings.TrimSpace(string(text)))
	}
	*to = t
	return nil
}

// givenEndpoints refuses endpoint settings of 0 that would silently become the
// default.
func givenEndpoints(tree any) error {
	root, _ := tree.(map[string]any)
	list, _ := root["endpoints"].([]any)
	for i, e := range list {
		given, _ := e.(map[string]any)
		if err := registry.CheckGiven(given); err != nil {
			return cli.UsageErrorf("endpoints[%d] (%v): %v", i, given["name"], err)
		}
	}
	return nil
}

// fileText reads a file and removes the byte order mark of some editors, which would
// become part of the first key.
func fileText(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	return bytes.TrimPrefix(b, []byte("\ufeff")), err
}

// lineOf finds the line of a bad value if the parser does not name it: the errors of
// our own types quote the value.
func lineOf(file []byte, err error) string {
	quoted := quotedValue.FindStringSubmatch(err.Error())
	if quoted == nil || strings.Contains(err.Error(), "] ") {
		return ""
	}
	for i, line := range strings.Split(string(file), "\n") {
		if _, value, ok := strings.Cut(line, ":"); ok && strings.Contains(value, quoted[1]) {
			return fmt.Sprintf("line %d: ", i+1)
		}
	}
	return ""
}

var (
	quotedValue  = regexp.MustCompile(`^"([^"]+)" is not a`)
	unknownField = regexp.MustCompile(`unknown field "([^"]*)"`)
	wrongType    = regexp.MustCompile(`cannot unmarshal \S+(?: \{\})? into Go struct field \S+ of type (\S+)`)
)

// plain replaces Go types in a parser's message by words of the configuration, and
// suggests a key for an unknown one.
func plain(message string) string {
	message = wrongType.ReplaceAllStringFunc(message, func(s string) string {
		kinds := map[string]string{"string": "text", "int": "a whole number", "float64": "a number", "bool": "true or false"}
		if kind, ok := kinds[wrongType.FindStringSubmatch(s)[1]]; ok {
			return kind + " is wanted here"
		}
		return s
	})
	return unknownField.ReplaceAllStringFunc(message, func(s string) string {
		word, places := unknownField.FindStringSubmatch(s)[1], keys("", reflect.TypeFor[Config]())
		near := registry.Nearest(word, slices.Sorted(maps.Keys(places)))
		switch {
		case word == "pack":
			return s + ": a running server takes packs, 'freshet endpoint add --pack NAME'"
		case near == word:
			return s + " at this place: it belongs to " + places[near]
		case near != "":
			return s + fmt.Sprintf(", did you mean %q?", near)
		}
		return s + "; 'freshet config print --endpoint NAME=URL' shows all there are"
	})
}

// keys returns the keys of a configuration type, those of nested types included, with the
// keys above them, such as "limits" or "the top level".
func keys(above string, t reflect.Type) map[string]string {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	out := map[string]string{}
	if t.Kind() != reflect.Struct {
		return out
	}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		for key, place := range keys(join(above, name), f.Type) {
			out[key] = place
		}
		out[name] = cmp.Or(above, "the top level")
	}
	return out
}

// settable returns the values that environment variables may set, by key: all except lists and maps
// of anything but texts.
func (c *Config) settable() map[string]any {
	out := map[string]any{}
	addSettable(out, "", reflect.ValueOf(c).Elem())
	return out
}

func addSettable(out map[string]any, above string, v reflect.Value) {
	for f, x := range v.Fields() {
		name := f.Tag.Get("yaml")
		if name == "" || name == "-" {
			continue
		}
		key := join(above, name)
		switch at := x.Addr().Interface().(type) {
		case *string, *[]string, *int, encoding.TextUnmarshaler:
			out[key] = at
		default:
			if x.Kind() == reflect.Struct {
				addSettable(out, key, x)
			}
		}
	}
}

// Variable returns the name of the variable for a key, such as FRESHET_LIMITS_BODY for
// limits.body.
func Variable(key string) string {
	return "FRESHET_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// readEnv reads FRESHET_… variables into c.
func (c *Config) readEnv(getenv func(string) string) error {
	values := c.settable()
	for _, key := range slices.Sorted(maps.Keys(values)) {
		v := getenv(Variable(key))
		if v == "" {
			continue
		}
		var err error
		switch dst := values[key].(type) {
		case *string:
			*dst = v
		case *[]string:
			*dst = strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' })
		case *int:
			if *dst, err = strconv.Atoi(v); err != nil {
				err = fmt.Errorf("%q is not a whole number", v)
			}
		case encoding.TextUnmarshaler:
			err = dst.UnmarshalText([]byte(v))
		}
		if err != nil {
			return cli.UsageErrorf("%s: %v", Variable(key), err)
		}
	}
	secret, err := cli.SecretFrom(getenv, "FRESHET_ADMIN_TOKEN")
	if err != nil || secret == "" {
		return err
	}
	if utf8.RuneCountInString(secret) < registry.MinSecretLength {
		return cli.UsageErrorf("FRESHET_ADMIN_TOKEN: at least %d characters; 'freshet token add --local admin' makes a good one",
			registry.MinSecretLength)
	}
	c.Tokens = slices.DeleteFunc(c.Tokens, func(t registry.Token) bool { return t.Name == "admin" })
	c.Tokens = append(c.Tokens, registry.Token{Name: "admin", Role: registry.RoleAdmin, SHA256: registry.HashSecret(secret)})
	return nil
}

// otherVariables are those that set no key of the configuration.
var otherVariables = []string{"FRESHET_CONFIG", "FRESHET_ADMIN_TOKEN", "FRESHET_ADMIN_TOKEN_FILE", "FRESHET_SERVER",
	"FRESHET_TOKEN", "FRESHET_TOKEN_FILE", local.EngineEnv}

// warnOfUnknown names the FRESHET_… variables that have no effect. Kubernetes itself sets some
// for a service of the name freshet, and tests have theirs.
func warnOfUnknown(w *cli.Env) {
	if w.Environ == nil {
		return
	}
	known := slices.Clone(otherVariables)
	for key := range new(Config).settable() {
		known = append(known, Variable(key))
	}
	for _, text := range w.Environ() {
		name, _, _ := strings.Cut(text, "=")
		if !strings.HasPrefix(name, "FRESHET_") || slices.Contains(known, name) || foreignVariable.MatchString(name) {
			continue
		}
		hint := ""
		if near := registry.Nearest(strings.ToLower(name), lowered(known)); near != "" {
			hint = ", did you mean " + strings.ToUpper(near) + "?"
		}
		fmt.Fprintf(w.Stderr, "freshet: the variable %s has no effect%s\n", name, hint)
	}
}

var foreignVariable = regexp.MustCompile(`^FRESHET_(SERVICE_|PORT$|PORT_|TEST_|NEMESIS_|REQUIRE$)`)

func lowered(names []string) (list []string) {
	for _, n := range names {
		list = append(list, strings.ToLower(n))
	}
	return list
}
