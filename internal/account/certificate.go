package account

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
)

// byCertificate finds the user that the client's certificate names, in nats-server's order: e-mail addresses, DNS names,
// URIs, the subject as a distinguished name, its text with the domain components behind it, its text alone.
func (d *directory) byCertificate(c *Credentials) (*Identity, error) {
	cert := c.Certificate
	if cert == nil {
		return nil, fmt.Errorf("%w: no client certificate", ErrUnauthorized)
	}
	for _, name := range alternativeNames(cert) {
		if u := d.users[name]; u != nil && name != "" && u.allows(c.Connection) {
			return u.Identity, nil
		}
	}
	if u := d.byDN(cert, c.Connection); u != nil {
		return u.Identity, nil
	}
	text := cert.Subject.ToRDNSequence().String()
	for _, name := range []string{withDomainComponents(text, cert.RawSubject), text} {
		if u := d.users[name]; u != nil && name != "" && u.allows(c.Connection) {
			return u.Identity, nil
		}
	}
	return nil, fmt.Errorf("%w: no user is %q, as the certificate has it", ErrUnauthorized, text)
}

// alternativeNames are the names of a certificate beside its subject.
func alternativeNames(cert *x509.Certificate) []string {
	var names []string
	names = append(names, cert.EmailAddresses...)
	names = append(names, cert.DNSNames...)
	for _, u := range cert.URIs {
		names = append(names, u.String())
	}
	return names
}

// byDN finds a user whose name is the certificate's subject as a distinguished name: first one in the same order, then
// one in any.
func (d *directory) byDN(cert *x509.Certificate, connection string) *user {
	subject, err := subjectDN(cert.RawSubject)
	if err != nil {
		return nil // it has attributes without a name; its text may still be one
	}
	var reordered *user
	for _, u := range d.users {
		if u.dn == nil || !u.allows(connection) {
			continue
		}
		if u.dn.equal(subject) {
			return u
		}
		// Of several the first by name, so that the answer is always the same.
		if u.dn.equalInAnyOrder(subject) && (reordered == nil || u.User < reordered.User) {
			reordered = u
		}
	}
	return reordered
}

// domainComponent is the attribute type DC.
var domainComponent = asn1.ObjectIdentifier{0, 9, 2342, 19200300, 100, 1, 25}

// withDomainComponents gives the text of a subject with its domain components behind it; "" when it has none.
func withDomainComponents(text string, raw []byte) string {
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return ""
	}
	parts := []string{text}
	for _, rdn := range rdns {
		for _, a := range rdn {
			if value, ok := a.Value.(string); ok && a.Type.Equal(domainComponent) {
				parts = append(parts, "DC="+value)
			}
		}
	}
	if len(parts) == 1 {
		return ""
	}
	return strings.Join(parts, ",")
}
