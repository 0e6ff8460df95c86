package auth_test

import (
	"fmt"
	"log"
	"time"

	"roomd/transport/auth"
)

func ExampleVerifier() {
	const secret = "not a good secret, but long enough"
	signer, err := auth.SecretSigner(secret)
	if err != nil {
		log.Fatal(err)
	}
	token, err := signer.Sign(auth.Identity{
		User: "张三", Rooms: []string{"table-*"}, Expires: time.Now().Add(time.Hour),
	})
	if err != nil {
		log.Fatal(err)
	}

	verifier, err := auth.New(auth.Secret(secret), auth.Options{})
	if err != nil {
		log.Fatal(err)
	}
	who, err := verifier.Verify(token)
	fmt.Println(who.User, who.Role, who.Allows("table-7"), who.Allows("42"), err)
	_, err = verifier.Verify(token + "A")
	fmt.Println(err)
	// Output:
	// 张三 player true false <nil>
	// the token's signature is wrong
}
