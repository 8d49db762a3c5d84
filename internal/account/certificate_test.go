package account

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicemq/sluice/internal/certtest"
)

func TestParseDN(t *testing.T) {
	tests := []struct {
		text string
		want distinguishedName // nil: it is none
	}{
		{"CN=a", distinguishedName{{{"CN", "a"}}}},
		{"cn=a, O = b c ,DC=x", distinguishedName{{{"CN", "a"}}, {{"O", "b c"}}, {{"DC", "x"}}}},
		{"CN=a+OU=b,O=c", distinguishedName{{{"CN", "a"}, {"OU", "b"}}, {{"O", "c"}}}},
		{`CN=a\,b\2Bc\ ,O=\"q\"`, distinguishedName{{{"CN", "a,b+c "}}, {{"O", `"q"`}}}},
		{"CN=a=b", distinguishedName{{{"CN", "a=b"}}}},
		{"CN=,O=x", distinguishedName{{{"CN", ""}}, {{"O", "x"}}}},
		{"", nil},
		{"alice", nil},
		{"a,b", nil},
		{"=x", nil},
		{"CN=x,", nil},
		{"CN=#0401", nil},
		{`CN=\`, nil},
		{`CN=\zz`, nil},
		{`CN=\4`, nil},
	}
	for _, tc := range tests {
		got, err := parseDN(tc.text)
		if (err == nil) != (tc.want != nil) || !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%q is %q, %v, want %q", tc.text, got, err, tc.want)
		}
	}
}

// FuzzParseDN: a name is equal to itself, and nothing panics.
func FuzzParseDN(f *testing.F) {
	for _, s := range []string{"CN=a,O=b", `CN=a\,b+OU=\20`, "a", "=,=", `\`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		dn, err := parseDN(s)
		if err != nil {
			return
		}
		if !dn.equal(dn) || !dn.equalInAnyOrder(dn) {
			t.Errorf("%q is not itself", s)
		}
	})
}

// TestByCertificate has nats-server's order of what a certificate says.
func TestByCertificate(t *testing.T) {
	const (
		email, dns, uri = "e@example.com", "host.example", "spiffe://example/x"
		dn, reordered   = "CN=www, OU=CNCF, O=Example", "O=Example,CN=www,OU=CNCF"
		text            = "CN=www,OU=CNCF,O=Example"
	)
	dc := asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}
	plain := pkix.Name{CommonName: "www", OrganizationalUnit: []string{"CNCF"}, Organization: []string{"Example"}}
	withDC := plain
	withDC.ExtraNames = []pkix.AttributeTypeAndValue{{Type: dc, Value: "example"}, {Type: dc, Value: "com"}}
	strange := plain
	strange.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 2, 3}, Value: "x"}}
	sans := func(c *x509.Certificate) {
		u, _ := url.Parse(uri)
		c.EmailAddresses, c.DNSNames, c.URIs, c.Subject = []string{"other@example.com", email}, []string{dns}, []*url.URL{u}, plain
	}
	subject := func(n pkix.Name) func(*x509.Certificate) {
		return func(c *x509.Certificate) { c.DNSNames, c.Subject = nil, n }
	}
	tests := []struct {
		name  string
		cert  func(*x509.Certificate) // nil: none is shown
		users string                  // separated by |; those after a ! may not come over TCP
		want  string                  // "": refused
	}{
		{"e-mail first", sans, email + "|" + dns + "|" + uri + "|" + dn, email},
		{"then DNS", sans, dns + "|" + uri + "|" + dn, dns},
		{"then URI", sans, uri + "|" + dn, uri},
		{"then the subject", sans, dn + "|x", dn},
		{"a user who may not come in this way is passed over", sans, "!" + email + "|" + dns, dns},
		{"the subject in another order", subject(plain), reordered, reordered},
		{"the same order goes before another", subject(plain), reordered + "|" + dn, dn},
		{"a part of the subject is not enough", subject(plain), "CN=www,OU=CNCF", ""},
		{"more than the subject is too much", subject(plain), text + ",C=DE", ""},
		{"values keep their case", subject(plain), "CN=WWW,OU=CNCF,O=Example", ""},
		{"domain components", subject(withDC), "DC=com,DC=example,CN=www,OU=CNCF,O=Example", "DC=com,DC=example,CN=www,OU=CNCF,O=Example"},
		{"an attribute without a name", subject(strange), text + ",1.2.3=#0c0178", ""},
		{"without the password", sans, email + ":p=secret", ""},
		{"with the password", sans, email + ":p=y", email},
		{"nobody", sans, "x", ""},
		{"no certificate", nil, email, ""},
	}
	ca := certtest.New(t)
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var s Settings
			for name := range strings.SplitSeq(tc.users, "|") {
				u := UserSettings{}
				var barred bool
				name, u.Password, _ = strings.Cut(name, ":p=")
				if u.Name, barred = strings.CutPrefix(name, "!"); barred {
					u.ConnectionTypes = []string{"WEBSOCKET"}
				}
				s.Users = append(s.Users, u)
			}
			d, err := NewDirectory(s)
			if err != nil {
				t.Fatal(err)
			}
			c := Credentials{Mapped: true, Connection: ConnectionStandard, User: "x"}
			if strings.HasSuffix(tc.users, ":p=y") {
				c.Pass = "y"
			}
			if tc.cert != nil {
				c.Certificate = ca.Leaf(t, tc.cert).Leaf
			}
			id, err := d.Authenticate(c)
			switch {
			case tc.want == "":
				if !errors.Is(err, ErrUnauthorized) {
					t.Errorf("got %+v, %v", id, err)
				}
			case err != nil || id.User != tc.want:
				t.Errorf("got %+v, %v", id, err)
			default:
				if again, err := d.Recheck(id, c); err != nil || again.User != tc.want {
					t.Errorf("rechecked: %+v, %v", again, err)
				}
			}
		})
	}
}
