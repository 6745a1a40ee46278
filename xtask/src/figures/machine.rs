//! The machine that figures belong to, and its kind of processor.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// Kind of processor: runs of the same kind are compared over time, others beside each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Kind {
    /// Model as the processor names itself.
    pub(super) model: String,
    /// Family and model number, which tell processors of one name apart; `None` where unknown.
    pub(super) family: Option<(u32, u32)>,
    pub(super) cores: usize,
    pub(super) aes: Aes,
    /// Whether wide AES is there and was kept from the cipher library. Such a run is of the same
    /// processor, and says nothing about another one.
    pub(super) is_masked: bool,
}

/// Width in which the cipher library uses the processor's AES instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Aes {
    /// Four blocks an instruction: VAES and VPCLMULQDQ with AVX-512, all of which the library needs.
    Wide,
    /// One block an instruction.
    Narrow,
    /// The processor has no AES instructions.
    None,
}

/// The machine at the beginning of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Machine {
    pub(super) kernel: String,
    pub(super) memory_bytes: u64,
    /// Flags of the processor that decide how ciphers and checksums run, in alphabetical order.
    pub(super) flags: Vec<String>,
}

/// Flags that results name: those by which cipher library and checksums choose their code.
const FLAGS: [&str; 13] = [
    "aes",
    "asimd",
    "avx2",
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "pclmulqdq",
    "pmull",
    "sha_ni",
    "sse4_2",
    "vaes",
    "vpclmulqdq",
];

/// Flags without which the cipher library does not use wide AES.
const WIDE: [&str; 6] = [
    "avx512bw",
    "avx512dq",
    "avx512f",
    "avx512vl",
    "vaes",
    "vpclmulqdq",
];

/// Environment that keeps wide AES from the cipher library (AWS-LC reads this variable as OpenSSL
/// does): the second mask clears bits 41 (VAES) and 42 (VPCLMULQDQ) of leaf 7, words EBX and ECX.
pub(super) const MASK: (&str, &str) = ("OPENSSL_ia32cap", "~0x0:~0x60000000000");

impl Kind {
    /// Reads the kind of this machine.
    pub(super) fn here() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::parse(&text, cores)
    }

    /// Parses `/proc/cpuinfo`. `cores` counts where the file does not list processors.
    fn parse(text: &str, cores: usize) -> Self {
        let fields = fields(text);
        let number = |name: &str| fields.get(name)?.parse().ok();
        let listed = text
            .lines()
            .filter(|it| it.starts_with("processor"))
            .count();
        let flags = flags(&fields);
        let has = |flag: &&str| flags.contains(flag);
        let aes = match () {
            () if WIDE.iter().all(has) => Aes::Wide,
            () if has(&"aes") => Aes::Narrow,
            () => Aes::None,
        };
        Self {
            model: fields
                .get("model name")
                .or_else(|| fields.get("CPU part"))
                .map_or("unknown processor", |it| *it)
                .to_owned(),
            family: number("cpu family").zip(number("model")),
            cores: if listed == 0 { cores } else { listed },
            aes,
            is_masked: false,
        }
    }

    /// The processor with wide AES kept from the cipher library; `None` where it has none.
    pub(super) fn masked(&self) -> Option<Self> {
        (self.aes == Aes::Wide && !self.is_masked).then(|| Self {
            is_masked: true,
            ..self.clone()
        })
    }

    /// The kind as the head of a column.
    pub(super) fn words(&self) -> String {
        let family = self.family.map_or_else(String::new, |(family, model)| {
            format!(" (family {family}, model {model})")
        });
        let cores = match self.cores {
            1 => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        };
        let aes = match (self.aes, self.is_masked) {
            (_, true) => "wide AES masked",
            (Aes::Wide, _) => "wide AES",
            (Aes::Narrow, _) => "no wide AES",
            (Aes::None, _) => "no AES",
        };
        format!("{}{family}, {cores}, {aes}", self.model)
    }

    /// Name of the folder with the kind's results.
    pub(super) fn folder(&self) -> String {
        let mut name = String::new();
        for letter in self.words().to_lowercase().chars() {
            match letter {
                'a'..='z' | '0'..='9' => name.push(letter),
                _ if !name.ends_with('-') && !name.is_empty() => name.push('-'),
                _ => {}
            }
        }
        name.trim_end_matches('-').to_owned()
    }
}

impl Machine {
    pub(super) fn here() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let text = read("/proc/cpuinfo");
        let flags = flags(&fields(&text))
            .into_iter()
            .map(str::to_owned)
            .collect();
        let kib = read("/proc/meminfo").lines().find_map(|line| {
            let words = line.strip_prefix("MemTotal:")?;
            words.split_whitespace().next()?.parse::<u64>().ok()
        });
        let kernel = ["ostype", "osrelease"].map(|it| read(&format!("/proc/sys/kernel/{it}")));
        Self {
            kernel: format!("{} {}", kernel[0].trim(), kernel[1].trim()),
            memory_bytes: kib.unwrap_or(0) * 1024,
            flags,
        }
    }
}

/// Name → value of the first processor.
fn fields(text: &str) -> BTreeMap<&str, &str> {
    let mut fields = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
        fields.entry(name.trim()).or_insert(value.trim());
    }
    fields
}

/// The members of [`FLAGS`] that the processor has.
fn flags<'a>(fields: &BTreeMap<&str, &'a str>) -> Vec<&'a str> {
    let all = fields.get("flags").or_else(|| fields.get("Features"));
    let words = all.into_iter().flat_map(|it| it.split_whitespace());
    let mut flags: Vec<&str> = words.filter(|it| FLAGS.contains(it)).collect();
    flags.sort_unstable();
    flags.dedup();
    flags
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDE_CPU: &str = "processor\t: 0\ncpu family\t: 26\nmodel\t\t: 2\nmodel name\t: AMD EPYC\n\
        flags\t\t: fpu aes avx512f avx512dq avx512bw avx512vl vaes vpclmulqdq\n\nprocessor\t: 1\n\
        model name\t: AMD EPYC\n";

    #[test]
    fn wide_aes_needs_all_that_the_library_asks_for() {
        let kind = Kind::parse(WIDE_CPU, 1);
        assert_eq!((kind.aes, kind.cores), (Aes::Wide, 2));
        let half = Kind::parse(&WIDE_CPU.replace(" avx512bw", ""), 1);
        assert_eq!(half.aes, Aes::Narrow);
        let none = Kind::parse(&WIDE_CPU.replace(" aes", ""), 1);
        assert_eq!(none.aes, Aes::Wide, "VAES alone is enough for the library");
        assert_eq!(Kind::parse("", 3).aes, Aes::None);
        assert_eq!(Kind::parse("", 3).cores, 3);
    }

    #[test]
    fn kinds_of_processor_have_folders_of_their_own() {
        let kind = Kind::parse(WIDE_CPU, 1);
        assert_eq!(
            kind.words(),
            "AMD EPYC (family 26, model 2), 2 cores, wide AES"
        );
        assert_eq!(kind.folder(), "amd-epyc-family-26-model-2-2-cores-wide-aes");
        let masked = kind.masked().expect("wide AES can be masked");
        assert_eq!(masked.folder(), format!("{}-masked", kind.folder()));
        assert_eq!(masked.masked(), None);
        let arm = "processor\t: 0\nFeatures\t: fp asimd aes pmull\nCPU part\t: 0xd4f\n";
        let arm = Kind::parse(arm, 1);
        assert_eq!((arm.aes, arm.masked()), (Aes::Narrow, None));
    }
}
