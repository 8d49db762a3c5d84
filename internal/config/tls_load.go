package config

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// Load reads the files and gives what a listener needs. The result is the caller's, but for what a Given
// configuration refers to.
func (t *TLS) Load() (*tls.Config, error) {
	if reasons := t.faults(); len(reasons) > 0 {
		return nil, errors.New(reasons[0])
	}
	if t.Given != nil {
		return t.Given.Clone(), nil
	}
	c := &tls.Config{MinVersion: max(t.MinVersion, tls.VersionTLS12), CipherSuites: t.CipherSuites, CurvePreferences: t.CurvePreferences}
	pairs := t.Certs
	if t.CertFile != "" {
		pairs = []CertPair{{t.CertFile, t.KeyFile}}
	}
	for i, p := range pairs {
		cert, err := tls.LoadX509KeyPair(p.CertFile, p.KeyFile)
		if err != nil && len(pairs) > 1 {
			return nil, fmt.Errorf("error parsing X509 certificate/key pair %d/%d: %w", i+1, len(pairs), err)
		}
		if err != nil {
			return nil, fmt.Errorf("error parsing X509 certificate/key pair: %w", err)
		}
		c.Certificates = append(c.Certificates, cert)
	}
	switch {
	case t.Verify:
		c.ClientAuth = tls.RequireAndVerifyClientCert
	case t.VerifyOptional:
		c.ClientAuth = tls.VerifyClientCertIfGiven
	}
	if t.CAFile == "" {
		return c, nil
	}
	pem, err := readFile(t.CAFile)
	if err != nil {
		return nil, fmt.Errorf("reading ca_file: %w", err)
	}
	c.ClientCAs = x509.NewCertPool()
	if !c.ClientCAs.AppendCertsFromPEM(pem) {
		return nil, errors.New("failed to parse root ca certificate")
	}
	return c, nil
}
