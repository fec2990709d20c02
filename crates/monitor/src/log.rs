//! Samples in a file: `highwater top -o out.hwlog`.
//!
//! A line of JSON each: first [`Header`], then a [`Sample`] as often as was looked. A file that ends within a line is one
//! whose program was ended: what is whole counts.

use std::io::{self, BufRead, Read as _, Write};

use serde::{Deserialize, Serialize};

use crate::sample::Sample;

/// The format in the file's first line.
pub const FORMAT: &str = "highwater-log";

/// The layout's version. 1 is the first.
pub const VERSION: u32 = 1;

/// Bytes of a line at most: a thousand processes are 300 KiB. A longer line is not a sample.
pub const LINE_BYTES: u64 = 4 << 20;

/// The first line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Header {
    /// The name of the document: `highwater-log`.
    pub format: String,
    /// The version of its shape.
    pub version: u32,
    /// The requested interval between samples, in microseconds.
    pub interval_us: u64,
}

/// Why a log cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// It cannot be read at all.
    #[error("line {line}: {cause}")]
    Io {
        /// Counted from 1.
        line: u64,
        /// The system's message.
        cause: io::Error,
    },
    /// The first line is something else.
    #[error("line 1: expected `{{\"format\":\"{FORMAT}\",…}}`")]
    NoLog,
    /// A later program wrote it.
    #[error("line 1: the layout is version {0}, expected {VERSION}: a newer highwater wrote this log")]
    Newer(u32),
    /// A line that is too long.
    #[error("line {line}: more than {LINE_BYTES} bytes, too long for a sample")]
    TooLong {
        /// Counted from 1.
        line: u64,
    },
    /// A line that is no sample.
    #[error("line {line}: {cause}")]
    NoSample {
        /// Counted from 1.
        line: u64,
        /// The problem.
        cause: serde_json::Error,
    },
}

/// Writes a log.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a log of samples `interval_us` apart.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(mut out: W, interval_us: u64) -> io::Result<Self> {
        let header = Header { format: FORMAT.to_owned(), version: VERSION, interval_us };
        line(&mut out, &header)?;
        Ok(Self { out })
    }

    /// Adds a sample; it is in the file when this returns.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn add(&mut self, sample: &Sample) -> io::Result<()> {
        line(&mut self.out, sample)
    }
}

/// Writes a value in one piece, so that a program that is ended leaves whole lines but for the last.
fn line(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_vec(value)?;
    text.push(b'\n');
    out.write_all(&text)?;
    out.flush()
}

/// Reads a log, a sample at a time: as much memory as the longest line takes.
#[derive(Debug)]
pub struct Reader<R: BufRead> {
    input: R,
    line: u64,
    header: Header,
    is_cut: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the first line.
    ///
    /// # Errors
    /// It is no log, or that of a newer program.
    pub fn new(mut input: R) -> Result<Self, LogError> {
        let (text, _) = read_line(&mut input, 1)?.ok_or(LogError::NoLog)?;
        let header: Header = serde_json::from_slice(&text).map_err(|_| LogError::NoLog)?;
        if header.format != FORMAT {
            return Err(LogError::NoLog);
        }
        if header.version > VERSION {
            return Err(LogError::Newer(header.version));
        }
        Ok(Self { input, line: 1, header, is_cut: false })
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Whether the file ended within a line.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// The next sample; `None` at the end.
    ///
    /// # Errors
    /// A line that is no sample, unless the file ends in it.
    pub fn next_sample(&mut self) -> Result<Option<Sample>, LogError> {
        self.line += 1;
        let Some((text, is_whole)) = read_line(&mut self.input, self.line)? else { return Ok(None) };
        match serde_json::from_slice(&text) {
            Ok(sample) => Ok(Some(sample)),
            Err(_) if !is_whole => {
                self.is_cut = true;
                Ok(None)
            }
            Err(cause) => Err(LogError::NoSample { line: self.line, cause }),
        }
    }
}

/// A line, and whether its end is there; `None` after the last.
fn read_line(input: &mut impl BufRead, line: u64) -> Result<Option<(Vec<u8>, bool)>, LogError> {
    let mut text = Vec::new();
    input.by_ref().take(LINE_BYTES).read_until(b'\n', &mut text).map_err(|cause| LogError::Io { line, cause })?;
    if text.is_empty() {
        return Ok(None);
    }
    let is_whole = text.last() == Some(&b'\n');
    if !is_whole && text.len() as u64 == LINE_BYTES {
        return Err(LogError::TooLong { line });
    }
    Ok(Some((text, is_whole)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{GpuSample, Memory, ProcessKind, ProcessSample};

    fn sample(time_us: u64) -> Sample {
        let process = ProcessSample {
            pid: 7,
            kind: ProcessKind::Compute,
            bytes: Some(5),
            user: None,
            command: Some("python \"x\"\n".into()),
            torch: None,
            torch_note: None,
            loaded: None,
        };
        let memory = Some(Memory { total_bytes: 10, used_bytes: 5, free_bytes: 4, reserved_bytes: 1 });
        let gpu = GpuSample { name: "H".into(), memory, processes: vec![process], ..GpuSample::default() };
        Sample { time_us, gpus: vec![gpu], ..Sample::default() }
    }

    fn written(samples: &[Sample]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes, 1000).unwrap();
        for sample in samples {
            writer.add(sample).unwrap();
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<(Vec<Sample>, bool), LogError> {
        let mut reader = Reader::new(bytes)?;
        let mut samples = Vec::new();
        while let Some(sample) = reader.next_sample()? {
            samples.push(sample);
        }
        Ok((samples, reader.is_cut()))
    }

    #[test]
    fn what_was_written_is_read() {
        let samples = [sample(1), sample(2)];
        assert_eq!(read(&written(&samples)).unwrap(), (samples.to_vec(), false));
    }

    #[test]
    fn wherever_a_log_is_cut_what_is_whole_counts() {
        let bytes = written(&[sample(1), sample(2)]);
        let header = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 1;
        for end in header..bytes.len() {
            let (samples, _) = read(&bytes[..end]).unwrap();
            assert!(samples.len() <= 2 && samples.iter().zip(1..).all(|(sample, time)| sample.time_us == time));
        }
        assert!(read(&bytes[..header - 10]).is_err());
    }

    #[test]
    fn what_is_no_log_says_so() {
        let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        insta::assert_snapshot!(error(b""), @r#"line 1: expected `{"format":"highwater-log",…}`"#);
        insta::assert_snapshot!(error(b"\x80\x04}."), @r#"line 1: expected `{"format":"highwater-log",…}`"#);
        insta::assert_snapshot!(
            error(b"{\"format\":\"highwater-log\",\"version\":9,\"interval_us\":1}\n"),
            @"line 1: the layout is version 9, expected 1: a newer highwater wrote this log"
        );
        let bad = [&written(&[])[..], b"{\"time_us\":-1}\n"].concat();
        insta::assert_snapshot!(error(&bad), @"line 2: invalid value: integer `-1`, expected u64 at line 1 column 13");
        let long = [&written(&[])[..], &vec![b' '; 5 << 20]].concat();
        insta::assert_snapshot!(error(&long), @"line 2: more than 4194304 bytes, too long for a sample");
        let deep = [&written(&[])[..], &vec![b'['; 1 << 20], b"\n"].concat();
        assert!(error(&deep).starts_with("line 2: "), "nothing recurses");
    }
}
