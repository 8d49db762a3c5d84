package main

import (
	"errors"
	"flag"
	"strconv"
	"strings"

	"github.com/sluicemq/sluice/internal/config"
)

// tlsFlags are those of TLS. As for nats-server any of them replaces the whole block tls of the file.
type tlsFlags struct {
	given, off bool
	tls        config.TLS
}

func (f *tlsFlags) define(fs *flag.FlagSet) {
	for name, field := range map[string]*string{"tlscert": &f.tls.CertFile, "tlskey": &f.tls.KeyFile, "tlscacert": &f.tls.CAFile} {
		fs.Func(name, "", func(s string) error {
			*field, f.given = s, true
			return nil
		})
	}
	fs.BoolFunc("tls", "", func(s string) error {
		on, err := strconv.ParseBool(s)
		f.off, f.given = !on, true
		return err
	})
	fs.BoolFunc("tlsverify", "", func(s string) error {
		f.given = true
		if strings.EqualFold(s, "optional") {
			f.tls.Verify, f.tls.VerifyOptional = false, true
			return nil
		}
		on, err := strconv.ParseBool(s)
		if err != nil {
			return errors.New("neither true, false nor optional")
		}
		f.tls.Verify, f.tls.VerifyOptional = on, false
		return nil
	})
}

// lay lays the flags over the options.
func (f *tlsFlags) lay(o *config.Options) error {
	switch {
	case !f.given:
		return nil
	case f.off:
		o.TLS = nil
		return nil
	case f.tls.CertFile == "":
		return errors.New("TLS Server certificate must be present and valid")
	case f.tls.KeyFile == "":
		return errors.New("TLS Server private key must be present and valid")
	}
	t := f.tls
	o.TLS = &t
	_, err := t.Load()
	return err
}
