package scheduler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/freshet/freshet/registry"
	"github.com/freshet/freshet/scheduler"
	"github.com/freshet/freshet/scheduler/policy"
)

func shadowed(policy string, shadows ...string) registry.Endpoint {
	e := endpoint("never", 3*time.Second, policy)
	e.Shadows = shadows
	return e
}

// The setting shadows may hold many different policies that can run live.
func TestShadowChoice(t *testing.T) {
	most := []string{"rr", "sjf", "ljf", "cr", "dj", "ttl", "hybrid", "sqrt"}
	for n := 2; len(most) < scheduler.MaxShadows; n++ {
		most = append(most, fmt.Sprintf("ttl:max=%d:half", n))
	}
	for _, x := range []struct {
		shadows []string
		says    string
	}{
		{nil, ""},
		{most, ""},
		{append(slices.Clone(most), "ttl:max=2:reset"), "too many"},
		{[]string{"dj", "rr", "dj"}, "twice"},
		{[]string{"cr", "cr:lambda=0"}, "twice"},
		{[]string{"cv"}, "simulator"},
		{[]string{"lru"}, "lru"},
	} {
		_, err := scheduler.NewLoop(scheduler.Config{Endpoint: shadowed("rr", x.shadows...)})
		if (err == nil) != (x.says == "") || err != nil && !strings.Contains(err.Error(), x.says) {
			t.Errorf("%v: %v, want %q", x.shadows, err, x.says)
		}
	}
	e := registry.Endpoint{Name: city}
	for _, spelling := range []string{"rr", "cr", "cr:lambda=0", "rr"} {
		if err := scheduler.AddShadow(&e, spelling); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{"rr", "cr:lambda=0"}, e.Shadows); d != "" {
		t.Errorf("chosen -want +got:\n%s", d)
	}
	if err := scheduler.RemoveShadow(&e, "cr"); err != nil || len(e.Shadows) != 1 {
		t.Errorf("%v, %v", e.Shadows, err)
	}
	if err := scheduler.RemoveShadow(&e, "cr"); !errors.Is(err, registry.ErrNotFound) {
		t.Error(err)
	}
	if err := scheduler.AddShadow(&e, "cv"); !errors.Is(err, policy.ErrPolicy) {
		t.Error(err)
	}
}
