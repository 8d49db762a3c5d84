package account

import (
	"encoding/base64"
	"testing"
	"time"
)

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func rightsOf(t *testing.T, p *Permissions) *Rights {
	t.Helper()
	r, err := newRights(p)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestMayPublish(t *testing.T) {
	tests := []struct {
		name        string
		p           *Permissions
		subj        string
		may, limits bool
	}{
		{"no permissions", nil, "a", true, false},
		{"empty permissions", &Permissions{}, "a", true, false},
		{"allowed", &Permissions{Publish: SubjectPermissions{Allow: []string{"a.*", "b"}}}, "a.x", true, true},
		{"not allowed", &Permissions{Publish: SubjectPermissions{Allow: []string{"a.*", "b"}}}, "a", false, true},
		{"denied", &Permissions{Publish: SubjectPermissions{Deny: []string{"a.>"}}}, "a.b.c", false, true},
		{"not denied", &Permissions{Publish: SubjectPermissions{Deny: []string{"a.>"}}}, "a", true, true},
		{"deny wins", &Permissions{Publish: SubjectPermissions{Allow: []string{"a.>"}, Deny: []string{"a.b"}}}, "a.b", false, true},
		{"answers only", &Permissions{Responses: &ResponsePermission{}}, "a", false, true},
		{"answers and more", &Permissions{Publish: SubjectPermissions{Allow: []string{"a"}}, Responses: &ResponsePermission{}}, "a", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := rightsOf(t, tt.p)
			if r.MayPublish([]byte(tt.subj)) != tt.may || r.LimitsPublish() != tt.limits {
				t.Errorf("MayPublish %v, LimitsPublish %v", r.MayPublish([]byte(tt.subj)), r.LimitsPublish())
			}
		})
	}
}

func TestMaySubscribe(t *testing.T) {
	p := &Permissions{Subscribe: SubjectPermissions{
		Allow: []string{"plain", "both", "both v1", "only v1", "only v2.*", "w.>"},
		Deny:  []string{"w.no", "w.q bad", "w.q worse.*"},
	}}
	tests := []struct {
		subj, queue string
		may         bool
	}{
		{"plain", "", true},
		{"plain", "any", true},
		{"both", "", true},
		{"both", "v1", true},
		{"both", "v2", false},
		{"only", "", false},
		{"only", "v1", true},
		{"only", "v2.x", true},
		{"only", "v3", false},
		{"w.a", "", true},
		{"w.*", "", true},
		{"w.no", "", false},
		{"w.no", "q", false},
		{"w.q", "", true},
		{"w.q", "good", true},
		{"w.q", "bad", false},
		{"w.q", "worse.1", false},
		{"other", "", false},
	}
	r := rightsOf(t, p)
	for _, tt := range tests {
		if got := r.MaySubscribe(tt.subj, tt.queue); got != tt.may {
			t.Errorf("MaySubscribe(%q, %q) is %v", tt.subj, tt.queue, got)
		}
	}
}

func TestDeliveryFilter(t *testing.T) {
	r := rightsOf(t, &Permissions{Subscribe: SubjectPermissions{Deny: []string{"a.no", "b.x bad"}}})
	for _, tt := range []struct {
		subj, queue string
		needs       bool
	}{
		{"a.*", "", true}, {"a.yes", "", false}, {"c.*", "", false}, {"a.yes", "q", false}, {"b.x", "good", true}, {">", "", true},
	} {
		if got := r.NeedsFilter(tt.subj, tt.queue); got != tt.needs {
			t.Errorf("NeedsFilter(%q, %q) is %v", tt.subj, tt.queue, got)
		}
	}
	for _, tt := range []struct {
		subj, queue string
		denies      bool
	}{
		{"a.no", "", true}, {"a.yes", "", false}, {"b.x", "", false}, {"b.x", "bad", true}, {"b.x", "good", false},
	} {
		if got := r.DeniesDelivery([]byte(tt.subj), tt.queue); got != tt.denies {
			t.Errorf("DeniesDelivery(%q, %q) is %v", tt.subj, tt.queue, got)
		}
	}
}

func TestResponseDefaults(t *testing.T) {
	r := rightsOf(t, &Permissions{Responses: &ResponsePermission{}}).Responses()
	if r.MaxMsgs != 1 || r.Expires != 2*time.Minute {
		t.Errorf("%+v", r)
	}
	r = rightsOf(t, &Permissions{Responses: &ResponsePermission{MaxMsgs: -1, Expires: -1}}).Responses()
	if r.MaxMsgs != -1 || r.Expires != -1 {
		t.Errorf("%+v", r)
	}
	if rightsOf(t, nil).Responses() != nil {
		t.Error("a permission out of nothing")
	}
}
