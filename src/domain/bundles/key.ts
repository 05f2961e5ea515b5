// Ed25519 keys (RFC 8032) that sign bundles. A public key is written as `ed25519:` and its 32 bytes in base64url, as in a JWK.
//
// A signature proves only that a holder of the pinned key signed the bundle. It proves neither that the content is good nor that it is
// recent.
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject, sign, verify } from "node:crypto";
import { open, readFile } from "node:fs/promises";
import { Failure } from "../../base/errors.ts";
import { isErrno } from "../../base/files.ts";
import { unwritable } from "../../base/unwritable.ts";

/** Prefix of the signed bytes, so that a signature made for another purpose is not valid for a bundle. */
const purpose = Buffer.from("plumbline bundle, format 1\n");

/** Pattern of a public key, and number of base64url characters in a signature. */
export const keyPattern = "^ed25519:[A-Za-z0-9_-]{43}$";
export const signatureLength = 86;

const publicText = (key: KeyObject): string => `ed25519:${key.export({ format: "jwk" }).x}`;

/** Parses a public key. Null if the text is not a public key as publicText writes it. */
function publicKeyOf(text: string): KeyObject | null {
  if (!new RegExp(keyPattern).test(text)) return null;
  const x = text.slice("ed25519:".length);
  // The last character carries four bits of the key. Its other two bits must be zero.
  if (Buffer.from(x, "base64url").toString("base64url") !== x) return null;
  return createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" });
}

/** Makes a key pair, writes the private key to a new file that only its owner may read, and returns the public key. Throws usage. */
export async function makeKey(path: string): Promise<string> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const file = await open(path, "wx", 0o600).catch((error) => {
    if (isErrno(error, "EEXIST")) throw new Failure("usage", `${path} already exists`);
    throw unwritable(path, error);
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
  /** The public key. */
  key: string;
  /** Returns the signature in base64url. */
  sign(manifest: Buffer): string;
}

/** Reads a private key from a PEM file. Throws file_missing, bundle_key_invalid. */
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

/** Whether `signature` signs the manifest with `key`. False if `key` is not a public key, or `signature` is not canonical base64url. */
export function isSignedBy(key: string, manifest: Buffer, signature: string): boolean {
  const known = publicKeyOf(key);
  const bytes = Buffer.from(signature, "base64url");
  if (known === null || bytes.toString("base64url") !== signature) return false;
  return verify(null, Buffer.concat([purpose, manifest]), known, bytes);
}

export const isPublicKey = (text: string): boolean => publicKeyOf(text) !== null;
