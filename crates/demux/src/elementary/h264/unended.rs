use h264_reader::rbsp::{BitRead, BitReader, BitReaderError, Numeric, Primitive};

/// Reads the fields of a parameter set, and not what is behind them: some cameras leave bytes behind
/// the end of a set.
pub(super) struct Unended<R: std::io::BufRead + Clone>(pub(super) BitReader<R>);

impl<R: std::io::BufRead + Clone> BitRead for Unended<R> {
    fn read_ue(&mut self, name: &'static str) -> Result<u32, BitReaderError> {
        self.0.read_ue(name)
    }

    fn read_se(&mut self, name: &'static str) -> Result<i32, BitReaderError> {
        self.0.read_se(name)
    }

    fn read_bool(&mut self, name: &'static str) -> Result<bool, BitReaderError> {
        self.0.read_bool(name)
    }

    fn read<U: Numeric>(
        &mut self,
        bit_count: u32,
        name: &'static str,
    ) -> Result<U, BitReaderError> {
        self.0.read(bit_count, name)
    }

    fn read_to<V: Primitive>(&mut self, name: &'static str) -> Result<V, BitReaderError> {
        self.0.read_to(name)
    }

    fn skip(&mut self, bit_count: u32, name: &'static str) -> Result<(), BitReaderError> {
        self.0.skip(bit_count, name)
    }

    /// Leaves out the fields at the end of a set that may be absent: nobody can tell them from bytes
    /// behind the set.
    fn has_more_rbsp_data(&mut self, _: &'static str) -> Result<bool, BitReaderError> {
        Ok(false)
    }

    fn finish_rbsp(self) -> Result<(), BitReaderError> {
        Ok(())
    }

    fn finish_sei_payload(self) -> Result<(), BitReaderError> {
        Ok(())
    }
}
