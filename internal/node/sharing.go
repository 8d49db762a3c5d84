package node

import (
	"cmp"
	"fmt"

	"github.com/sluicemq/sluice/internal/account"
	"github.com/sluicemq/sluice/internal/broker"
)

// share makes the accounts share what the settings say. They are valid.
func (n *Node) share(s *account.Settings, all []*account.Account) error {
	settings := map[string]*account.AccountSettings{}
	for i := range s.Accounts {
		settings[s.Accounts[i].Name] = &s.Accounts[i]
	}
	for _, a := range all {
		own := settings[a.Name]
		if own == nil {
			own = &account.AccountSettings{Name: a.Name}
		}
		mappings := own.Mappings
		if a.Name == account.DefaultName {
			mappings = s.Mappings
		}
		to, err := sharing(s, own, mappings)
		if err == nil {
			err = n.broker.Share(a.Name, to)
		}
		if err != nil {
			return fmt.Errorf("node: account %q: %w", a.Name, err)
		}
	}
	return nil
}

// sharing is an account's part in the form that the broker takes.
func sharing(s *account.Settings, a *account.AccountSettings, mappings []account.Mapping) (to broker.Sharing, err error) {
	for i := range a.Imports {
		im := &a.Imports[i]
		subjects, err := im.Bridge()
		if err != nil {
			return to, err
		}
		if !im.Service {
			to.Streams = append(to.Streams, broker.StreamImport{From: im.Account, Subjects: subjects})
			continue
		}
		export := s.Source(a.Name, im)
		if export == nil {
			return to, fmt.Errorf("%q is not exported", im.Subject)
		}
		to.Services = append(to.Services, broker.ServiceImport{
			From: im.Account, Subjects: subjects, Many: export.Responses != account.Single,
			Threshold: cmp.Or(export.Threshold, account.DefaultResponseThreshold), Share: im.Share,
		})
	}
	for i := range mappings {
		m := broker.Mapping{Source: mappings[i].Source}
		transforms, weights, err := mappings[i].Transforms()
		if err != nil {
			return to, err
		}
		for k := range transforms {
			m.To = append(m.To, broker.Destination{Weight: weights[k], Subject: transforms[k]})
		}
		to.Mappings = append(to.Mappings, m)
	}
	return to, nil
}
