/**
 * Certificate and key for TCP ports, read from PEM files.
 *
 * Both are read and compared before they are used: a broken pair would otherwise show as handshakes that fail, one for each
 * client, long after the gateway started or reloaded.
 */
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { detailOf, GatewayError } from "./error.ts";

export interface CertificateFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
}

export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * Reads both files.
 *
 * @throws GatewayError `tls_invalid` when a file can't be read, or the key does not belong to the certificate
 */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  try {
    const [cert, key] = await Promise.all([
      readFile(files.certificateFile),
      readFile(files.keyFile),
    ]);
    // Node compares key and certificate here, and throws; the context itself is not needed.
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (error) {
    throw new GatewayError(
      "tls_invalid",
      `${files.certificateFile}, ${files.keyFile}: ${detailOf(error)}`,
      error,
    );
  }
}
