package account

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// distinguishedName is a name as RFC 4514 writes it: a sequence of sets of attributes, the most particular first.
type distinguishedName [][]attribute

// attribute is a type, such as CN, in upper case, and its value.
type attribute struct{ kind, value string }

var errDN = errors.New("not a distinguished name")

// attributeNames are the types that nats-server reads from a certificate.
var attributeNames = map[string]string{
	"2.5.4.3": "CN", "2.5.4.5": "SERIALNUMBER", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST", "2.5.4.9": "STREET",
	"2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.17": "POSTALCODE",
	"0.9.2342.19200300.100.1.25": "DC",
}

// subjectDN reads the subject of a certificate.
func subjectDN(raw []byte) (distinguishedName, error) {
	var rdns pkix.RDNSequence
	if _, err := asn1.Unmarshal(raw, &rdns); err != nil {
		return nil, err
	}
	var dn distinguishedName
	for _, set := range slices.Backward(rdns) {
		var attrs []attribute
		for _, a := range set {
			kind, value := attributeNames[a.Type.String()], ""
			if text, ok := a.Value.(string); ok {
				value = text
			} else {
				kind = ""
			}
			if kind == "" {
				return nil, fmt.Errorf("attribute %v has no name or no text", a.Type)
			}
			attrs = append(attrs, attribute{kind, value})
		}
		if len(attrs) > 0 {
			dn = append(dn, attrs)
		}
	}
	return dn, nil
}

// parseDN reads the text form.
func parseDN(s string) (distinguishedName, error) {
	var dn distinguishedName
	var set []attribute
	for s != "" {
		kind, rest, ok := strings.Cut(s, "=")
		if kind = strings.Trim(kind, " "); !ok || kind == "" || strings.ContainsAny(kind, ",+\\") || strings.HasPrefix(rest, "#") {
			return nil, errDN
		}
		value, end, rest, err := attributeValue(rest)
		if err != nil {
			return nil, err
		}
		set = append(set, attribute{strings.ToUpper(kind), value})
		if end != '+' {
			dn, set = append(dn, set), nil
		}
		if end != 0 && rest == "" {
			return nil, errDN
		}
		s = rest
	}
	if len(dn) == 0 {
		return nil, errDN
	}
	return dn, nil
}

// attributeValue reads a value up to the separator behind it, which is 0 at the end of the text. Blanks around it that
// are not escaped do not count.
func attributeValue(s string) (value string, separator byte, rest string, err error) {
	var b []byte
	kept := 0 // length up to which blanks are meant
	s = strings.TrimLeft(s, " ")
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == ',' || c == '+':
			return string(b[:kept]), c, s[i+1:], nil
		case c != '\\':
			b = append(b, c)
			if c != ' ' {
				kept = len(b)
			}
			continue
		case i+1 < len(s) && strings.IndexByte(` "#+,;<=>\`, s[i+1]) >= 0:
			b = append(b, s[i+1])
			i++
		case i+2 < len(s):
			octet, err := hex.DecodeString(s[i+1 : i+3])
			if err != nil {
				return "", 0, "", errDN
			}
			b = append(b, octet...)
			i += 2
		default:
			return "", 0, "", errDN
		}
		kept = len(b)
	}
	return string(b[:kept]), 0, "", nil
}

// equal reports whether both have the same sets in the same order.
func (dn distinguishedName) equal(other distinguishedName) bool {
	return slices.EqualFunc(dn, other, sameSet)
}

// equalInAnyOrder reports whether both have the same sets.
func (dn distinguishedName) equalInAnyOrder(other distinguishedName) bool {
	if len(dn) != len(other) {
		return false
	}
	left := slices.Clone(other)
	for _, set := range dn {
		i := slices.IndexFunc(left, func(s []attribute) bool { return sameSet(s, set) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

// sameSet reports whether both hold the same attributes, in any order.
func sameSet(a, b []attribute) bool {
	in := func(set []attribute) func(attribute) bool {
		return func(x attribute) bool { return !slices.Contains(set, x) }
	}
	return len(a) == len(b) && !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}
