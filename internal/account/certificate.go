package account

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
)

// byCertificate finds the user that the client's certificate names. As for nats-server a user that has a password needs
// it as well.
func (d *directory) byCertificate(c *Credentials) (*Identity, error) {
	if c.Certificate == nil {
		return nil, fmt.Errorf("%w: no client certificate", ErrUnauthorized)
	}
	u := d.named(c.Certificate, c.Connection)
	if u == nil {
		return nil, fmt.Errorf("%w: no user is %q, as the certificate has it", ErrUnauthorized, c.Certificate.Subject.ToRDNSequence())
	}
	if !secretMatches(u.secret, c.Pass) {
		return nil, fmt.Errorf("%w: password of user %q", ErrUnauthorized, u.User)
	}
	return u.Identity, nil
}

// named finds the user that a certificate names, in nats-server's order: e-mail addresses, DNS names, URIs, the subject
// as a distinguished name, its text with the domain components behind it, its text alone.
func (d *directory) named(cert *x509.Certificate, connection string) *user {
	for _, name := range alternativeNames(cert) {
		if u := d.users[name]; u != nil && u.allows(connection) {
			return u
		}
	}
	if u := d.byDN(cert, connection); u != nil {
		return u
	}
	text := cert.Subject.ToRDNSequence().String()
	for _, name := range []string{withDomainComponents(text, cert.RawSubject), text} {
		if u := d.users[name]; u != nil && u.allows(connection) {
			return u
		}
	}
	return nil
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
