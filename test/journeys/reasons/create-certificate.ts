import { generateKeyPairSync, type KeyObject, randomBytes, sign } from 'node:crypto';

/** A certificate with its key, as PEM. */
export interface Certificate {
  readonly cert: string;
  readonly key: string;
  readonly name: string;
  readonly privateKey: KeyObject;
}

interface CertificateOptions {
  readonly name: string;
  /** Undefined for a certificate that signs itself. */
  readonly issuer?: Certificate;
  readonly isAuthority?: boolean;
  /** The days from now of its first and its last moment. */
  readonly days?: readonly [number, number];
}

function encode(tag: number, ...contents: readonly Buffer[]): Buffer {
  const body = Buffer.concat(contents);
  const { length } = body;
  const size = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...size]), body]);
}

const sequence = (...contents: readonly Buffer[]) => encode(0x30, ...contents);
const objectId = (hex: string) => encode(0x06, Buffer.from(hex, 'hex'));
const truth = encode(0x01, Buffer.from([0xff]));
const ecdsaWithSha256 = sequence(objectId('2a8648ce3d040302'));

function encodeName(name: string): Buffer {
  return sequence(encode(0x31, sequence(objectId('550403'), encode(0x0c, Buffer.from(name)))));
}

function encodeTime(days: number): Buffer {
  const iso = new Date(Date.now() + days * 86_400_000).toISOString();
  return encode(0x18, Buffer.from(`${iso.slice(0, 19).replace(/[-:T]/g, '')}Z`));
}

/** Makes an X.509 certificate for a host name, without the help of a program. */
export function createCertificate(options: CertificateOptions): Certificate {
  const { name, issuer, isAuthority = false, days = [-1, 1] } = options;
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const hostName = sequence(
    objectId('551d11'),
    encode(0x04, sequence(encode(0x82, Buffer.from(name)), encode(0x87, Buffer.from([127, 0, 0, 1])))),
  );
  const authority = sequence(objectId('551d13'), truth, encode(0x04, sequence(...(isAuthority ? [truth] : []))));
  const content = sequence(
    encode(0xa0, encode(0x02, Buffer.from([2]))),
    encode(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    encodeName(issuer?.name ?? name),
    sequence(encodeTime(days[0]), encodeTime(days[1])),
    encodeName(name),
    publicKey.export({ type: 'spki', format: 'der' }),
    encode(0xa3, sequence(...(isAuthority ? [] : [hostName]), authority)),
  );
  const signature = sign('sha256', content, issuer?.privateKey ?? privateKey);
  const der = sequence(content, ecdsaWithSha256, encode(0x03, Buffer.from([0]), signature));
  const lines = der.toString('base64').match(/.{1,64}/g) ?? [];
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${lines.join('\n')}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }) as string,
    name,
    privateKey,
  };
}
