/** Certificate and key for TCP ports, as files of PEM. */
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

/** Reads both, and sees that they fit. @throws GatewayError `tls_invalid` */
export async function readCertificate(files: CertificateFiles): Promise<Certificate> {
  try {
    const [cert, key] = await Promise.all([
      readFile(files.certificateFile),
      readFile(files.keyFile),
    ]);
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
