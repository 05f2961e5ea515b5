// Keys that sign bundles: ed25519 (RFC 8032). A public key is written as `ed25519:` and its 32 bytes in base64url, as in a JWK.
//
// A signature proves who holds the key that was pinned, and nothing more: neither that the content is good, nor that it is new.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";

/** Precedes what is signed, so that a signature made for another purpose is none of a bundle. */
const purpose = Buffer.from("plumbline bundle, format 1\n");

/** Characters of a public key and of a signature in base64url. */
export const keyPattern = "^ed25519:[A-Za-z0-9_-]{43}$";
export const signatureLength = 86;

const publicText = (key: KeyObject): string => `ed25519:${key.export({ format: "jwk" }).x}`;

/** Null if the text is no public key in the form that this file writes. */
function publicKeyOf(text: string): KeyObject | null {
  if (!new RegExp(keyPattern).test(text)) return null;
  const x = text.slice("ed25519:".length);
  // The last character carries four bits of the key; whatever else it says must be nothing.
  if (Buffer.from(x, "base64url").toString("base64url") !== x) return null;
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}

/** Makes a key, writes its private part to a new file that only its owner may read, and returns the public part. Throws usage. */
export async function makeKey(path: string): Promise<string> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const file = await open(path, "wx", 0o600).catch((error) => {
    if (isErrno(error, "EEXIST")) throw new Failure("usage", `${path} already exists`);
    if (isErrno(error, "ENOENT", "ENOTDIR", "EACCES", "EROFS"))
      throw new Failure("usage", `${path} cannot be written: ${(error as NodeJS.ErrnoException).code}`);
    throw error;
  });
  try {
    await file.writeFile(privateKey.export({ type: "pkcs8", format: "pem" }));
    await file.sync();
  } finally {
    await file.close();
  }
  return publicText(publicKey);
}

export interface Signer {
  /** Public part of the key. */
  key: string;
  /** In base64url. */
  sign(manifest: Buffer): string;
}

/** Throws file_missing, bundle_key_invalid. */
export async function readSigner(path: string): Promise<Signer> {
  const pem = await readFile(path, "utf8").catch((error) => {
    if (isErrno(error, "ENOENT", "ENOTDIR")) throw new Failure("file_missing", `The file ${path} does not exist`);
    throw new Failure("bundle_key_invalid", `${path} cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  });
  let key: KeyObject;
  try {
    key = createPrivateKey(pem);
  } catch (cause) {
    throw new Failure("bundle_key_invalid", `${path} does not contain a private key`, { cause });
  }
  if (key.asymmetricKeyType !== "ed25519")
    throw new Failure("bundle_key_invalid", `${path} contains a key of type ${key.asymmetricKeyType}, not ed25519`);
  return {
    key: publicText(createPublicKey(key)),
    sign: (manifest) => sign(null, Buffer.concat([purpose, manifest]), key).toString("base64url"),
  };
}

/** Whether the holder of `key` has signed the manifest. False if `key` is no key, or the signature is not written as above. */
export function isSignedBy(key: string, manifest: Buffer, signature: string): boolean {
  const known = publicKeyOf(key);
  const bytes = Buffer.from(signature, "base64url");
  if (known === null || bytes.toString("base64url") !== signature) return false;
  return verify(null, Buffer.concat([purpose, manifest]), known, bytes);
}

/** Whether a text is a public key. */
export const isPublicKey = (text: string): boolean => publicKeyOf(text) !== null;
