package account

import (
	"crypto/subtle"
	"encoding/base64"
	"regexp"

	"github.com/nats-io/nkeys"
	"golang.org/x/crypto/bcrypt"
)

var bcryptHash = regexp.MustCompile(`^\$2[abxy]\$\d{2}\$`)

// isBcrypt reports whether a configured password or token is a hash.
func isBcrypt(secret string) bool { return bcryptHash.MatchString(secret) }

// secretMatches compares what a client showed with what is configured. With a hash it takes as long as the hash was
// made to take.
func secretMatches(configured, shown string) bool {
	if isBcrypt(configured) {
		return bcrypt.CompareHashAndPassword([]byte(configured), []byte(shown)) == nil
	}
	return subtle.ConstantTimeCompare([]byte(configured), []byte(shown)) == 1
}

// signatureMatches checks that the nonce was signed with the secret half of a public nkey.
func signatureMatches(public, sig string, nonce []byte) bool {
	if sig == "" {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(sig)
	if err != nil {
		if raw, err = base64.StdEncoding.DecodeString(sig); err != nil {
			return false
		}
	}
	key, err := nkeys.FromPublicKey(public)
	return err == nil && key.Verify(nonce, raw) == nil
}
