//! The processors that packages are made for, in everybody's words.

/// A processor that packages are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Architecture {
    /// The 64-bit processors of AMD and Intel.
    Amd64,
    /// The 64-bit processors of ARM.
    Arm64,
}

impl Architecture {
    pub(crate) const ALL: [Self; 2] = [Self::Amd64, Self::Arm64];

    /// Returns the processor of this machine.
    ///
    /// # Errors
    /// Nothing is packed for this processor.
    pub(crate) fn here() -> Result<Self, String> {
        let here = std::env::consts::ARCH;
        let found = Self::ALL.into_iter().find(|it| it.machine() == here);
        found
            .ok_or_else(|| format!("there are no packages for {here}, only for x86_64 and aarch64"))
    }

    /// Returns the processor that Debian and OCI name so.
    pub(crate) fn of_debian(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.debian() == name)
    }

    /// Returns the name that Debian and OCI use.
    pub(crate) const fn debian(self) -> &'static str {
        match self {
            Self::Amd64 => "amd64",
            Self::Arm64 => "arm64",
        }
    }

    /// Returns the name that kernels, compilers and RPM use.
    pub(crate) const fn machine(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64",
            Self::Arm64 => "aarch64",
        }
    }

    /// Returns the target of Rust with glibc.
    pub(crate) const fn target(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-unknown-linux-gnu",
            Self::Arm64 => "aarch64-unknown-linux-gnu",
        }
    }

    /// Returns the beginning of the names of GNU's tools, and of Debian's folders of libraries.
    pub(crate) const fn gnu(self) -> &'static str {
        match self {
            Self::Amd64 => "x86_64-linux-gnu",
            Self::Arm64 => "aarch64-linux-gnu",
        }
    }
}
