/**
 * Certificate and key for TCP ports, read from PEM files.
 *
 * Both are read and compared before they are used: a broken pair would otherwise show as handshakes that fail, one for each
 * client, long after the gateway started or reloaded.
 */
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";
import { UsageError } from "../failure.ts";
import { WITHOUT_WAITING } from "../files.ts";
import { detailOf } from "./error.ts";

/** Paths of PEM files, as the flags name them. They are read again for each reload. */
export interface CertificateFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** The bytes of both files, as `node:tls` takes them. */
export interface Certificate {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/**
 * Reads both files.
 *
 * @throws UsageError `tls_invalid` when a file can't be read, or the key does not belong to the certificate
 */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  try {
    const [cert, key] = await Promise.all([
      readFile(files.certificateFile, { flag: WITHOUT_WAITING }),
      readFile(files.keyFile, { flag: WITHOUT_WAITING }),
    ]);
    // Node compares key and certificate here, and throws; the context itself is not needed.
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (error) {
    const { certificateFile, keyFile } = files;
    throw new UsageError("tls_invalid", `${certificateFile}, ${keyFile}: ${detailOf(error)}`);
  }
}
