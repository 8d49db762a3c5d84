package config

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluicemq/sluice/internal/account"
)

// notCompared are the fields that describe how the options came about.
var notCompared = map[string]bool{"ConfigFile": true, "ConfigDigest": true, "ConfigWarnings": true}

// TestEveryFieldHasAReloadRule changes each field in turn: Diff must see it.
func TestEveryFieldHasAReloadRule(t *testing.T) {
	old := Options{}
	old.SetDefaults()
	var walk func(path string, v reflect.Value, check func(string))
	walk = func(path string, v reflect.Value, check func(string)) {
		for i := range v.NumField() {
			f, name := v.Field(i), path+v.Type().Field(i).Name
			if notCompared[name] {
				continue
			}
			if f.Kind() == reflect.Struct {
				walk(name+".", f, check)
				continue
			}
			before := reflect.New(f.Type()).Elem()
			before.Set(f)
			change(t, name, f)
			check(name)
			f.Set(before)
		}
	}
	next := old.Clone()
	n := 0
	walk("", reflect.ValueOf(&next).Elem(), func(name string) {
		n++
		if len(Diff(&old, &next)) == 0 {
			t.Errorf("no reload rule covers %s", name)
		}
	})
	if n < 50 {
		t.Errorf("only %d fields were seen", n)
	}
	if d := Diff(&old, &next); d != nil {
		t.Errorf("equal options differ in %v", d)
	}
}

func change(t *testing.T, name string, f reflect.Value) {
	switch f.Kind() {
	case reflect.String:
		f.SetString(f.String() + "x")
	case reflect.Bool:
		f.SetBool(!f.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		f.SetInt(f.Int() + 1)
	case reflect.Float64:
		f.SetFloat(f.Float() + 1)
	case reflect.Slice:
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
	case reflect.Map:
		f.Set(reflect.MakeMap(f.Type()))
		f.SetMapIndex(reflect.ValueOf("k"), reflect.Zero(f.Type().Elem()))
	case reflect.Pointer:
		f.Set(reflect.New(f.Type().Elem()))
	default:
		t.Fatalf("the test cannot change %s, a %s", name, f.Kind())
	}
}

func TestReloadable(t *testing.T) {
	tests := []struct {
		name   string
		change func(old, new *Options)
		live   string // settings that change
		stuck  string // settings that need a restart
	}{
		{"nothing", func(_, _ *Options) {}, "", ""},
		{"limits and times", func(_, n *Options) {
			n.MaxPayload, n.MaxConnections, n.PingInterval, n.LameDuckDuration = 5, 6, time.Second, time.Hour
		}, "max_connections max_payload ping_interval lame_duck_duration", ""},
		{"users", func(_, n *Options) { n.Auth.Users = []account.UserSettings{{Name: "x"}} }, "authorization and accounts", ""},
		{"logging", func(_, n *Options) { n.Log.Debug = true }, "logging", ""},
		{"where to listen", func(_, n *Options) { n.Port, n.Host = 1, "h" }, "", "host port"},
		{"store and domain beside a limit", func(_, n *Options) { n.Store.URL, n.JetStream.Domain, n.MaxPending = "mem://", "D", 9 }, "", "jetstream.domain store"},
		{"jetstream bounds up", func(o, n *Options) { o.JetStream.MaxStore, n.JetStream.MaxStore = 5, 6 }, "jetstream.max_file_store", ""},
		{"jetstream bounds down", func(o, n *Options) { o.JetStream.MaxStore, n.JetStream.MaxStore = 6, 5 }, "", "jetstream.max_file_store"},
		{"jetstream bounds from none", func(_, n *Options) { n.JetStream.MaxMemory = 5 }, "", "jetstream.max_memory_store"},
		{"jetstream bounds to none", func(o, _ *Options) { o.JetStream.MaxMemory = 5 }, "", "jetstream.max_memory_store"},
		{"system account", func(_, n *Options) { n.Auth.SystemAccount = "S" }, "", "system_account"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var old Options
			old.SetDefaults()
			next := old.Clone()
			tc.change(&old, &next)
			changes, err := Reloadable(&old, &next)
			var live []string
			for _, c := range changes {
				live = append(live, c.Setting)
			}
			if got := strings.Join(live, " "); got != tc.live {
				t.Errorf("live: got %q, want %q", got, tc.live)
			}
			var stuck []string
			for _, e := range Faults(err) {
				if !errors.Is(e, ErrNeedsRestart) {
					t.Errorf("%v", e)
				}
				name, _, _ := strings.Cut(e.Error(), ":")
				stuck = append(stuck, name)
			}
			if got := strings.Join(stuck, " "); got != tc.stuck {
				t.Errorf("stuck: got %q, want %q", got, tc.stuck)
			}
		})
	}
}
